"""Where media comes from and goes to: S3 and its kin, signed URLs, and a folder of this machine.

How outputs are fenced. Every output appears whole or not at all: an object by one PUT or by the completion of a
multipart upload, a file by a rename. Before that last step the destination asks the fence whether the claim is
still current, and a stale one writes nothing.

Between that answer and the last step lies a moment in which a worker may freeze, lose its job, and wake. What
closes it depends on the store:

- A folder: the check and the rename happen under one file lock, which a newer attempt takes to leave its claim
  version there. From then on an older attempt is refused. Nothing remains open.
- A store with conditional writes (AWS S3, R2): the last step demands that the key is free (`If-None-Match: *`) or,
  where it is taken, still holds the object that was seen before the fence was last asked (`If-Match`). A worker
  that wakes late finds the key changed, asks the fence again, and stops. An older attempt that completes *before*
  the newer one is replaced by it. Nothing remains open, but for an older attempt whose bytes are the same.
- A store that ignores those conditions, or credentials that may write but not look (no HEAD): an attempt that froze
  exactly between its last fence and its last request can still put its whole object over the newer one. The moment
  is one round trip long; the object is whole, and was made from the same request.
- A signed PUT URL: as the store behind it, but without `If-Match` (nothing can be looked at).

Several outputs are staged first and published when all are there. An object is staged as the parts of a multipart
upload, whose completion shows it: that needs no right to read or to delete, as a copy from another key would. A file is
staged as a draft that is renamed. A signed PUT URL has no place to stage at.

Files that belong together (an HLS folder) are put under a folder of their attempt (`UploadAttempt.folder`), and the
file that names them last, at its fixed key: then no reader meets files of two attempts.

A multipart upload that was begun is noted in a ledger before its first part is sent, so that the next attempt
aborts what a killed worker left behind. What is lost: an upload whose worker died between the store's answer and
the note. A bucket's lifecycle rule for incomplete uploads catches that one.
"""
