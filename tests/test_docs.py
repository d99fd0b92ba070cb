"""What the pages say is true: their code runs, their links lead somewhere, their commands name real experiments."""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.processes import plain_environment

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').glob('*.md'))]


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page):
    text = page.read_text('utf-8')
    links = [link for link in re.findall(r'\]\(([^)#]+)\)', text) if '://' not in link]
    for link in links:
        assert (page.parent / link).exists(), link
    for name in re.findall(r'(?:experiments|benchmarks|tests|docs)/[\w/]+\.(?:py|md)', text):
        assert (ROOT / name).exists(), name


def test_the_tree_in_the_architecture_page_is_the_tree():
    text = (ROOT / 'docs' / 'architecture.md').read_text('utf-8')
    for path in ROOT.glob('seqjax/**/*.py'):
        if path.name != '__init__.py':
            assert re.search(rf'\b{path.stem}\b', text), f'{path.name} is not on the page'


def test_every_dependency_has_its_reason():
    page = (ROOT / 'docs' / 'dependencies.md').read_text('utf-8')
    required = (ROOT / 'setup.cfg').read_text('utf-8').partition('install_requires =')[2].partition('[')[0]
    for name in re.findall(r'^\s+([\w-]+)', required, re.MULTILINE):
        assert f'| {name} |' in page, name


@pytest.mark.parametrize('page, prints', [
    ('README.md', 'models in JAX'),  # it has learned the page
    ('docs/recurrent.md', '(4, 20, 16)'),
    ('docs/extending.md', '(2, 5, 8) [(2, 8), (2, 8, 3)]'),
    ('docs/images.md', '(4, 32, 32, 3)'),
    ('docs/captioning.md', '2 int32 (3,)'),
    ('docs/complexity.md', 'r = 64: 1.99 times 4 r n d'),
    ('docs/tasks.md', 'good'),
    ('docs/quantisation.md', '424192 115088\n'),
    ('docs/self_supervised.md', '(2, 4, 4, 4)'),
    ('docs/state_spaces.md', 'True'),
    ('docs/vision.md', '86,567,656\n(2, 10) (2, 64)\n'),
    ('docs/transformers.md', '174,604,259,328\n(2, 100, 64)\n128576'),
    ('docs/weights_from_torch.md', 'True\n<All keys matched successfully>'),
    ('docs/weights_from_hugging_face.md', 'True\n(5,)\n'),
])
def test_the_code_on_a_page_runs(page, prints):
    code = '\n'.join(re.findall(r'```python\n(.*?)```', (ROOT / page).read_text('utf-8'), re.DOTALL))
    if 'import torch' in code:
        pytest.importorskip('torch')
    quick = page != 'README.md'  # which trains
    ended = subprocess.run([sys.executable, '-c', code], cwd=ROOT, env=plain_environment(quick), capture_output=True, text=True)
    assert prints in ended.stdout, ended.stderr
