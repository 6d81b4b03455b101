-- Claims for HTTP workers may stand on receipts, too (ADR 017). The hashes of their lease tokens, 32 bytes each, one behind the other in
-- the order of the receipt's numbers. NULL: a worker beside the database, which has no tokens. They are random: not to be compressed.
ALTER TABLE euterpe_claims ADD COLUMN token_hashes bytea;
ALTER TABLE euterpe_claims ALTER COLUMN token_hashes SET STORAGE EXTERNAL;
