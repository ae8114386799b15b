"""Sphinx builds the site from the pages of this folder: `make docs`. Decision 0025 has the choice of the generator."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.pycode import ModuleAnalyzer

import onstream

project = "onstream"
version = release = onstream.__version__
html_title = f"onstream {release}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = html_copy_source = False
nitpicky = True
smartquotes_action = "D"  # dashes, no quotes
default_role = "code"  # docstrings write `name`, as pages do
add_module_names = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
myst_heading_anchors = 3
myst_links_external_new_tab = False


def shorten_signature(_app: Any, _what: str, _name: str, _object: Any, _options: Any, text: str, returned: str) -> Any:
    """As one calls it: without self, and without the names of internal modules."""
    if text is None:
        return None
    text = re.sub(r"^\(self(, )?", "(", text)
    found = [
        re.sub(r"\b(onstream\.\w+|_core|_arrays|collections\.abc|typing)\.", "", one or "") for one in (text, returned)
    ]
    return found[0], found[1] or None


def mend_docstring(_app: Any, what: str, name: str, value: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings as Sphinx would have them: napoleon takes a value's words before a colon for its type, a number has the
    words of its class, and `registration_...` is no link."""
    if name == "onstream.any_source":
        lines[:] = ModuleAnalyzer.for_module("onstream.probes").find_attr_docs()["", "any_source"]
    elif what in ("property", "data"):
        lines[:] = (inspect.getdoc(value) or "").splitlines()
    lines[:] = [re.sub(r"(?<=\w)_(?=\.)", r"\_", line) for line in lines if not line.startswith("(self) ->")]


def find_public(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Names of signatures, which Sphinx knows by the package's name in front; internal ones are no links."""
    if node.get("refdomain") != "py":
        return None
    name = "onstream." + node["reftarget"].rpartition(".")[2]
    found = env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
    return found if found is not None or node["reftype"] != "class" else content


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("missing-reference", find_public)
    app.connect("autodoc-process-docstring", mend_docstring, priority=900)  # behind napoleon
