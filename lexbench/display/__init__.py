"""What people see: answers that show themselves, tables of text, and how work reports its progress."""
