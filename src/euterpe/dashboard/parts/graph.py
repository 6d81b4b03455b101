"""A small layered graph: what a job depends on stands left of it, what depends on it stands right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import GLYPHS, short_id, state_words
from euterpe.dashboard.parts.html import Html
from euterpe.model.reading.overview import GraphNode

WIDTH: Final = 164
HEIGHT: Final = 40
GAP_X: Final = 36
GAP_Y: Final = 14
NAME_LIMIT: Final = 20


def layers_of(nodes: Mapping[str, GraphNode], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Jobs by their longest way from one that depends on nothing. There are no cycles: submit refuses them."""
    needs: dict[str, list[str]] = {node: [] for node in nodes}
    for job, dependency in edges:
        needs[job].append(dependency)
    depth: dict[str, int] = {}
    left = dict(needs)
    while left:
        ready = [node for node, wanted in left.items() if all(one in depth for one in wanted)]
        for node in ready or list(left):  # a cycle that a hand wrote is drawn flat
            depth[node] = max((depth.get(one, -1) + 1 for one in needs[node]), default=0)
            del left[node]
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in sorted(nodes):
        layers[depth[node]].append(node)
    return _less_crossed(layers, needs)


def _less_crossed(layers: list[list[str]], needs: Mapping[str, list[str]]) -> list[list[str]]:
    """Each layer in the order of the middle of what its jobs depend on."""
    place: dict[str, float] = {}
    for layer in layers:
        middle = {
            node: (sum(place[one] for one in needs[node]) / len(needs[node])) if needs[node] else 0.0 for node in layer
        }
        layer.sort(key=lambda node: middle[node])
        place.update({node: i for i, node in enumerate(layer)})
    return layers


def graph(nodes: Mapping[str, GraphNode], edges: Sequence[tuple[str, str]], here: str, base: str) -> Html:
    """`base` is the address of a job's page without its id."""
    layers = layers_of(nodes, edges)
    tallest = max(map(len, layers))
    height = tallest * (HEIGHT + GAP_Y) + GAP_Y
    place: dict[str, tuple[int, int]] = {}
    for i, layer in enumerate(layers):
        top = (height - len(layer) * (HEIGHT + GAP_Y) + GAP_Y) // 2
        for j, node in enumerate(layer):
            place[node] = (GAP_Y + i * (WIDTH + GAP_X), top + j * (HEIGHT + GAP_Y))
    width = len(layers) * (WIDTH + GAP_X) - GAP_X + 2 * GAP_Y
    return h.div(
        h.svg(
            [_edge(place[dependency], place[job]) for job, dependency in edges],
            [_box(node, place[node.job_id], here, base) for node in nodes.values()],
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="group",
            aria_label="The jobs around this one; the same stands in the list below",
        ),
        class_="graph",
        tabindex="0",
        role="region",
        aria_label="Dependencies, drawn",
    )


def _edge(source: tuple[int, int], target: tuple[int, int]) -> Html:
    x1, y1 = source[0] + WIDTH, source[1] + HEIGHT // 2
    x2, y2 = target[0], target[1] + HEIGHT // 2
    bend = GAP_X // 2
    return h.path(d=f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2 - 5} {y2}m-4 -4l5 4l-5 4", class_="edge")


def _box(node: GraphNode, place: tuple[int, int], here: str, base: str) -> Html:
    x, y = place
    name = node.type if len(node.type) <= NAME_LIMIT else node.type[: NAME_LIMIT - 1] + "…"
    state = "pruned" if node.state is None else f"{GLYPHS[node.state]} {state_words(node.state)}"
    if node.progress is not None and node.state == "running":
        state += f" {node.progress:.0f} %"
    box = h.g(
        h.rect(x=x, y=y, width=WIDTH, height=HEIGHT, rx=5),
        h.text(name or short_id(node.job_id), x=x + 10, y=y + 17, class_="n-type"),
        h.text(f"{state} · {short_id(node.job_id)}", x=x + 10, y=y + 32, class_="n-state"),
        class_=f"node s-{node.state or 'pruned'}{' here' if node.job_id == here else ''}",
    )
    if node.state is None or node.job_id == here:
        return box
    return h.a(box, href=base + node.job_id, aria_label=f"{node.type}, {state}")
