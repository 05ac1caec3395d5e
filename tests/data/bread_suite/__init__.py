"""A suite of the collection about bread: what another package ships under the entry point `lexbench.suites`."""
