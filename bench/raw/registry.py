"""Every raw probe of a run. A new file of probes, say of the engines' own claim and settle, is added here."""

from __future__ import annotations

from bench.raw import disk, euterpe_rows, euterpe_statements, postgres, sqlite

PROBES = (*disk.PROBES, *postgres.PROBES, *sqlite.PROBES, *euterpe_rows.PROBES, *euterpe_statements.PROBES)
