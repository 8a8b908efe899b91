#!/bin/sh
# Creates the environment named by the first argument and installs into it what the other arguments
# name to pip or uv: tfopt for development by default, or `--group docs`, which stands in
# pyproject.toml. uv is used where it is there, else venv and pip. PYTHON=... names the interpreter
# to take.
set -eu
target=${1:-.venv}
[ $# -gt 1 ] && shift || set -- --editable '.[dev]'

fits() {  # a Python that TensorFlow has wheels for, able to make environments
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3.12 python3.11 python3.13 python3 python}; do
        if command -v "$candidate" >/dev/null 2>&1 && fits "$candidate"; then
            if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
                echo "$candidate"
                return
            fi
            echo "note: $candidate cannot create environments (on Debian: apt install python3-venv)" >&2
        fi
    done
}

# An environment that was made halfway, or for another Python, is no use.
if [ -d "$target" ] && ! fits "$target/bin/python"; then
    rm -rf "$target"
fi
if [ -d "$target" ] && ! command -v uv >/dev/null 2>&1 &&
    ! "$target/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$target"
fi

if command -v uv >/dev/null 2>&1; then
    # uv brings a Python of its own where the machine has none that fits
    [ -d "$target" ] || uv venv --quiet --python "${PYTHON:->=3.11,<3.14}" "$target"
    echo "installing $* into $target with uv"
    uv pip install --quiet --python "$target/bin/python" "$@"
else
    if [ ! -d "$target" ]; then
        python=$(find_python)
        if [ -z "$python" ]; then
            echo "error: tfopt needs Python 3.11, 3.12 or 3.13 (TensorFlow has no wheels for others)," >&2
            echo "       and none was found; install one, or name it: make venv PYTHON=/path/to/python" >&2
            exit 1
        fi
        "$python" -m venv "$target"
    fi
    echo "installing $* into $target with pip (about a minute)"
    if [ "$1" = --group ]; then
        "$target/bin/python" -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
    fi
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
fi
