import collections, pytest, sys

pytestmark = pytest.mark.timeout(800)
import tests.stateful.test_lockstep as t, tests.stateful.histories as h
from tests.stateful.test_lockstep import lockstep

C = collections.Counter()


def test_stats(lockstep):
    orig = h.Histories._settle

    def settle(self, pairs, r):
        f = sys._getframe(1).f_code.co_name
        for c, w in pairs:
            j = self.oracle.jobs.get(c.job.id)
            k = (
                "gone"
                if j is None
                else "owned"
                if self.oracle.owns(c.job.id, c.job.claim_version)
                else ("newer" if j.state == "running" else "ended:" + j.state)
            )
            C[(f, k, w)] += 1
        return orig(self, pairs, r)

    h.Histories._settle = settle
    for part in range(4):
        t.test_sqlite_postgres_and_the_oracle_agree_on_every_history(lockstep, part)
    D = collections.Counter()
    for (f, k, w), n in C.items():
        D[(f, k)] += n
    for k, v in sorted(D.items()):
        print(k, v)
    print({k: v for k, v in C.items() if k[1] == "newer"})
