-- takes: nothing
-- returns: version, journal_mode, pages, free_pages, page_bytes
-- locks: none
-- What the file is like.
SELECT sqlite_version(), (SELECT journal_mode FROM pragma_journal_mode), (SELECT page_count FROM pragma_page_count),
       (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_size FROM pragma_page_size)
