DELETE FROM euterpe_pauses WHERE kind = :kind AND name = :name
