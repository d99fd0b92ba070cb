"""The picture of a beam search, read back from its coordinates: it has the tree, the answer and no text on another."""

import types
import xml.etree.ElementTree

from matplotlib import font_manager, textpath
import numpy as np
import pytest

from seqjax.analysis import beam_tree_svg
from seqjax.errors import FieldError

V, END = 12, 3
WORDS = ['<pad>', '<unk>', '<s>', '</s>', 'Vorführungen', 'MWMWMWMW', 'it', '.', '', 'a & <b>', '猫である', '\x01"\ud800']


def search(k, T, seed, unused=2):
    """The trace of a plain beam search over random log P, B = 1, with some steps at the end that it did not need."""
    rng = np.random.default_rng(seed)
    shape = (1, T + unused, 2 * k)
    trace = types.SimpleNamespace(tokens=np.zeros(shape, int), parents=np.zeros(shape, int), scores=np.full(shape, -np.inf),
                                  fate=np.zeros(shape, int), slots=np.full(shape, -1))
    live, finished = [((), 0.0)], []
    for t in range(T):
        log_probs = np.log(rng.dirichlet(np.full(V, 0.4), len(live)) + 1e-4)
        ways = [(score + log_probs[slot, token], slot, token)
                for slot, (_, score) in enumerate(live) for token in range(1, V)]
        next_live = []
        for c, (score, slot, token) in enumerate(sorted(ways, reverse=True)[:2 * k]):
            trace.tokens[0, t, c], trace.parents[0, t, c], trace.scores[0, t, c] = token, slot, score
            text = (*live[slot][0], token)
            if token == END and c < k or t == T - 1 and token != END:
                trace.fate[0, t, c] = 2
                finished.append((score, text))
            elif token != END and len(next_live) < k:
                trace.fate[0, t, c], trace.slots[0, t, c] = 1, len(next_live)
                next_live.append((text, score))
        live = next_live
    return trace, sorted(finished, reverse=True)


def elements(svg, tag):
    return xml.etree.ElementTree.fromstring(svg).findall(f'{{http://www.w3.org/2000/svg}}{tag}')


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


def read_back(svg):
    """{(column, y): (parent's column, parent's y)} and {(column, y): (word, number)} of every node but the start, and the
    places of those at the end of a thick edge."""
    edges = []
    for path in elements(svg, 'path'):
        x0, y0, *_, x1, y1 = (float(part) for part in path.get('d').split() if part not in 'MC')
        edges.append((x0, y0, x1, y1, float(path.get('stroke-width')) > 2))
    rights, lefts = (sorted({edge[side] for edge in edges}) for side in (0, 2))
    tree = {(1 + lefts.index(x1), y1): (rights.index(x0), y0) for x0, y0, x1, y1, _ in edges}
    assert len(tree) == len(edges)  # a node has one parent
    texts = {}
    for text in elements(svg, 'text'):
        x, y = numbers(text, 'x', 'y')
        texts[sum(left < x for left in lefts), y] = text.text
    nodes = {(column, y): (texts[column, y], texts[column, y + 12]) for column, y in tree}
    return tree, nodes, sorted((1 + lefts.index(x1), y1) for _, _, x1, y1, thick in edges if thick)


def shown(token):
    return {8: '·', 9: 'a·&·<b>', 11: '·"·'}.get(token, WORDS[token])


@pytest.mark.parametrize('k, T, seed', [(1, 4, 0), (2, 6, 1), (4, 8, 2), (10, 3, 3)])
def test_the_tree_of_the_picture_is_the_tree_of_the_search(k, T, seed):
    trace, _ = search(k, T, seed)
    trace.parents[0, 0] = k - 1  # the first slot of a group; at the first step it means the start as well
    svg = beam_tree_svg(trace, 0, WORDS.__getitem__)
    tree, nodes, _ = read_back(svg)

    def history(place):
        """The words and numbers from the start to a place."""
        return (history(tree[place]) if place[0] > 1 else ()) + (nodes[place],)

    expected, live = [], {slot: () for slot in range(k)}
    for t in range(T):
        order = np.argsort(-trace.scores[0, t])
        dropped = [c for c in order if trace.fate[0, t, c] == 0 and trace.scores[0, t, c] > -np.inf][:2]
        next_live = {}
        for c in range(2 * k):
            if trace.fate[0, t, c] or c in dropped:
                label = shown(trace.tokens[0, t, c]), f'{trace.scores[0, t, c]:.2f}'
                expected.append((*live[trace.parents[0, t, c]], label))
            if trace.fate[0, t, c] == 1:
                next_live[trace.slots[0, t, c]] = expected[-1]
        live = next_live
    assert sorted(map(history, tree)) == sorted(expected)
    frames = [box for box in elements(svg, 'rect') if box.get('stroke')]
    assert len(frames) == np.count_nonzero(trace.fate == 2)
    boxes = [box for box in elements(svg, 'rect') if box.get('x')]
    assert len(boxes) == 1 + np.count_nonzero(trace.fate)  # and the start


@pytest.mark.parametrize('place', [None, 0, 2])
def test_the_answer_is_one_thick_straight_line(place):
    trace, finished = search(3, 6, 4)
    answer = None if place is None else np.array(finished[place][1])
    _, nodes, thick = read_back(beam_tree_svg(trace, 0, WORDS.__getitem__, answer=answer))
    assert [nodes[place][0] for place in thick] == [shown(token) for token in finished[place or 0][1]]
    assert len({y for _, y in thick}) == 1


@pytest.mark.parametrize('seed', range(5))
def test_no_edges_cross(seed):
    tree, *_ = read_back(beam_tree_svg(search(5, 7, seed)[0], 0, WORDS.__getitem__))
    for column in range(1, 8):
        parents = [tree[node][1] for node in sorted(tree) if node[0] == column]
        assert parents == sorted(parents)


def measured(text, size):
    """The width of a text in a wide font; a Chinese character is as wide as it is high."""
    text = ''.join('—' if ord(c) > 0x3000 else c for c in text)
    return textpath.TextPath((0, 0), text, size, prop=font_manager.FontProperties()).get_extents().width


def touch(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize('k, T, seed', [(1, 1, 0), (3, 6, 5), (8, 5, 6)])
def test_no_text_lies_on_another_or_leaves_its_box_or_the_page(k, T, seed):
    svg = beam_tree_svg(search(k, T, seed)[0], 0, WORDS.__getitem__)
    width, height = numbers(xml.etree.ElementTree.fromstring(svg), 'width', 'height')
    extents = []
    for text in elements(svg, 'text'):
        x, y, size = numbers(text, 'x', 'y', 'font-size')
        wide = measured(text.text, size)
        left = x if text.get('text-anchor') == 'start' else x - wide / 2
        extents.append((left, y - 0.8 * size, left + wide, y + 0.22 * size))
        assert left >= 0 and left + wide <= width and 0 <= y - 0.8 * size and y + 0.22 * size <= height
    boxes = [(x, y, x + w, y + h) for x, y, w, h in (numbers(box, 'x', 'y', 'width', 'height')
                                                    for box in elements(svg, 'rect') if box.get('x'))]
    for i, one in enumerate(extents):
        assert not any(touch(one, other) for other in extents[:i])
        for box in boxes:
            assert not touch(one, box) or box[0] <= one[0] and one[2] <= box[2] and box[1] <= one[1] and one[3] <= box[3]
    assert not any(touch(one, other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_a_row_that_was_not_searched_is_only_its_start():
    trace, _ = search(2, 0, 0, unused=3)
    svg = beam_tree_svg(trace, 0, WORDS.__getitem__)
    assert not elements(svg, 'path') and elements(svg, 'text')[0].text == '<s>'


def test_the_row_is_the_one_that_was_asked_for():
    one, two = search(3, 5, 7)[0], search(3, 5, 8)[0]
    both = types.SimpleNamespace(**{name: np.concatenate([array, getattr(two, name)]) for name, array in vars(one).items()})
    assert [beam_tree_svg(both, row, WORDS.__getitem__) for row in (0, 1)] == [beam_tree_svg(trace, 0, WORDS.__getitem__)
                                                                               for trace in (one, two)]


def test_an_answer_of_another_search_is_refused():
    with pytest.raises(FieldError, match=r'^answer=\(5, 5, 5, 5, 5, 5, 5\): is not among what this search has finished; '):
        beam_tree_svg(search(2, 3, 0)[0], 0, WORDS.__getitem__, answer=[5] * 7)


def test_an_answer_may_end_with_token_0():
    trace, finished = search(2, 3, 0)
    last = trace.tokens[0, 2]
    c = next(c for c in range(4) if trace.fate[0, 2, c] == 2 and last[c] != END)
    answer = next(text for score, text in finished if score == trace.scores[0, 2, c])
    last[c] = 0
    _, nodes, thick = read_back(beam_tree_svg(trace, 0, WORDS.__getitem__, answer=[*answer[:-1], 0]))
    assert [nodes[place][0] for place in thick] == [*map(shown, answer[:-1]), '<pad>']


def test_the_file_is_what_is_returned(tmp_path):
    svg = beam_tree_svg(search(2, 3, 0)[0], 0, WORDS.__getitem__, path=tmp_path / 'deep' / 'beam.svg')
    assert (tmp_path / 'deep' / 'beam.svg').read_text('utf-8') == svg
