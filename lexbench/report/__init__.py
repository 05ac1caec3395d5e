"""Results as tables, figures and pages. Takes results, returns text or writes files."""
