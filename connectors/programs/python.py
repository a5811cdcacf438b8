"""Whatever Python code can list: a function that gives documents, a LangChain loader, a LlamaIndex reader.

``call`` names it as ``module:name``. What it gives is iterated: mappings with ``key`` and ``text`` (or
``data``, bytes), and ``uri`` and ``metadata`` if there are any; or objects with ``metadata`` and either
``page_content`` or ``get_content``. Version: a digest of all that is known of a document. As there is no
telling beforehand what changed, every scan runs the code to its end, in a process of its own, and what it
gave is kept on disk until the next. A scan that raises removes nothing; code that leaves documents out
without raising loses them, up to ``max_loss``.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.programs.loading import (
    Arguments,
    Call,
    Ending,
    Folder,
    Key,
    Load,
    Loading,
    MaxSize,
    Secrets,
    Timeout,
    named,
)
from ingestor.registry import Options, Plugin


class PythonOptions(Options):
    call: Annotated[str, AfterValidator(named)] = Field(
        description="what gives the documents, as in `package.module:function`; a class is a loader or reader"
    )
    arguments: Arguments
    secrets: Secrets
    load: Load
    folder: Folder
    key: Key
    ending: Ending
    timeout: Timeout
    max_size: MaxSize


def build(options: PythonOptions) -> Loading:
    call = Call(options.call, load=options.load)
    return Loading(options, lambda: call)


PLUGIN = Plugin(kind="python", version=1, options=PythonOptions, build=build)
