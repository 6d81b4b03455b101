-- Whoever is first in its line comes first anyhow.
{{admit}}
