# One virtual environment, made once and again whenever setup.cfg or constraints.txt change.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
RUN ?= runs/demo
TWO = --numprocesses=2 --dist=loadfile --no-loadscope-reorder  # two files of tests at a time, the longest first

.PHONY: demo test test-slow clean

demo: $(VENV)/installed
	$(BIN)/python launch.py --config=experiments/language/char_lstm.py --workdir=$(RUN)
	@echo; echo "What it writes after 'def ':"; echo
	$(BIN)/python launch.py --workdir=$(RUN) --mode=generate --config.decode.prompt="def " --config.decode.temperature=0.6 --config.decode.seed=4

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "not slow" $(TWO) --durations=10

test-slow: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "not slow" $(TWO)
	$(BIN)/python -m pytest -m slow

$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

clean:
	rm -rf $(VENV) *.egg-info .pytest_cache .hypothesis
