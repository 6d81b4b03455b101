DELETE FROM pauses WHERE kind = :kind AND name = :name
