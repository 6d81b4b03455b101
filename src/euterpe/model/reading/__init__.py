"""Jobs as people and programs see them: documents, queries, pages."""
