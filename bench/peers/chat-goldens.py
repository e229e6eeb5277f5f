"""Adds what jinja2 gives, set up as transformers does, to what @huggingface/jinja gave; null is a refusal."""

import datetime
import json
import sys

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body, lineno=line)


def refuse(message):
    raise TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


folder, source, target = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    given = json.load(file)
now = datetime.datetime.fromisoformat(given["now"].replace("Z", "+00:00"))
environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = refuse
environment.globals["strftime_now"] = now.strftime
for golden in given["goldens"]:
    with open(f"{folder}/{golden['template']}", encoding="utf-8") as file:
        template = environment.from_string(file.read())
    names = {**given["tokens"], **golden.get("settings", {})}
    if "tools" in golden:
        names["tools"] = golden["tools"]
    try:
        text = template.render(messages=golden["messages"], add_generation_prompt=golden["asks"], **names)
    except (TemplateError, TypeError):
        text = None
    golden["jinja2"] = text
    if golden["huggingface_jinja"] == text:
        del golden["huggingface_jinja"]
    else:
        print(f"{golden['template']}: {golden['name']}: @huggingface/jinja differs from jinja2")
with open(target, "w", encoding="utf-8") as file:
    json.dump(given, file, ensure_ascii=False, indent=1)
    file.write("\n")
