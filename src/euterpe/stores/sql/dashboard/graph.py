"""The jobs around one: what it depends on and what depends on it, some steps each way."""

from __future__ import annotations

from typing import Final

from euterpe.model.reading.overview import GraphNode
from euterpe.model.state import State
from euterpe.stores.sql.program import Program, Row, one

STEPS: Final = 4
NODES: Final = 60
CHILDREN: Final = 20


def graph_around(
    job_id: str, requester_id: str | None
) -> Program[tuple[dict[str, GraphNode], list[tuple[str, str]], bool]]:
    """(nodes, edges, whether there are more). Without edges there are no nodes."""
    edges: set[tuple[str, str]] = set()
    cut = False
    for name, near, far in (("edges_up", 0, 1), ("edges_down", 1, 0)):
        seen = {job_id}
        edge_of = [job_id]
        for _ in range(STEPS):
            rows = yield one(f"dashboard/{name}", ids=edge_of, limit=NODES + 1)
            found = [(row[0], row[1]) for row in rows]
            edge_of = sorted({edge[far] for edge in found} - seen)
            if len(seen) + len(edge_of) > NODES // 2:
                cut = True
                edge_of = edge_of[: NODES // 2 - len(seen)]
            seen |= set(edge_of)
            edges |= {edge for edge in found if edge[near] in seen and edge[far] in seen}
            if not edge_of:
                break
        else:
            cut = True
    ids = sorted({job for edge in edges for job in edge})
    if not ids:
        return {}, [], False
    rows = yield one("dashboard/nodes", ids=ids)
    nodes = {row[0]: _node(row) for row in rows if requester_id in (None, row[1])}
    foreign = {row[0] for row in rows} - nodes.keys()
    # What is not there any more was pruned; what is somebody else's is not told of.
    nodes |= {
        pruned: GraphNode(pruned, "", None, None) for pruned in ids if pruned not in nodes and pruned not in foreign
    }
    return nodes, sorted(edge for edge in edges if edge[0] in nodes and edge[1] in nodes), cut


def children_of(job_id: str, requester_id: str | None) -> Program[list[GraphNode]]:
    rows = yield one("dashboard/children", id=job_id, limit=CHILDREN)
    return [_node(row) for row in rows if requester_id in (None, row[1])]


def _node(row: Row) -> GraphNode:
    return GraphNode(row[0], row[2], State(row[3]), row[4])
