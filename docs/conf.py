"""How `make site` builds these pages: Markdown, read by MyST, built by Sphinx into build/site.

The pages are plain Markdown, which an editor or a code host shows as well; only index.md has a list of pages in it.
What is built asks no other host for anything: the theme brings its style sheets and scripts along.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from anchors import anchor

project = "grpo-run"
copyright = "the authors of grpo-run"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}

# A link to a page, a file or a heading that is not there is a warning, and -W ends the build with it.
nitpicky = True
myst_heading_anchors = 3
myst_heading_slug_func = anchor
suppress_warnings = ["config.cache"]  # a function cannot be kept for the next build
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "grpo-run"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
smartquotes = False  # a quote is one to paste
pygments_style = "friendly"
highlight_language = "text"

# The button of a block with prompts copies the commands alone.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
