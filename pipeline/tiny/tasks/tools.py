"""Function calling: tools stand in the system prompt, the answer is one or several calls, a refusal
or a summary."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .base import SYSTEM_PROMPTS, Instance, Message, heavy_tail
from .words import CAPITALS, CATEGORIES, DAYS, HOBBIES, MONTHS, NAMES, PLAIN_WORDS

FAMILY: Final = "tools"
MAX_CALLS: Final = 8
NO_TOOL: Final = "None of my tools can do that."

Arguments = dict[str, str | int]
_CITIES = tuple(sorted(CAPITALS.values()))


@dataclass(frozen=True, slots=True)
class _Tool:
    """A function: its parameters (name to JSON type), how a user asks for it and how its answer is
    put in words."""

    name: str
    about: str
    parameters: Mapping[str, str]
    requests: tuple[str, ...]
    draw: Callable[[random.Random], Arguments]
    outcome: Callable[[random.Random, Arguments], tuple[Arguments, str]]

    def schema(self) -> dict[str, Any]:
        properties = {name: {"type": kind} for name, kind in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


def _weather(rng: random.Random, args: Arguments) -> tuple[Arguments, str]:
    degrees, sky = rng.randint(-5, 35), rng.choice(("sunny", "cloudy", "rainy", "windy"))
    return {
        "temperature": degrees,
        "sky": sky,
    }, f"In {args['city']} it is {sky} with {degrees} degrees."


def _time(rng: random.Random, args: Arguments) -> tuple[Arguments, str]:
    time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    return {"time": time}, f"In {args['city']} it is {time} now."


def _price(rng: random.Random, args: Arguments) -> tuple[Arguments, str]:
    price = rng.randint(2, 900)
    return {"price": price}, f"The {args['item']} costs {price} euros."


def _stored(rng: random.Random, args: Arguments) -> tuple[Arguments, str]:
    number = rng.randint(100, 999)
    return {"status": "ok", "id": number}, f"Done, the number is {number}."


TOOLS: Final[tuple[_Tool, ...]] = (
    _Tool(
        "get_weather",
        "Weather in a city",
        {"city": "string"},
        (
            "What is the weather in {city}?",
            "How is the weather in {city} today?",
            "Do I need a coat in {city}?",
        ),
        lambda rng: {"city": rng.choice(_CITIES)},
        _weather,
    ),
    _Tool(
        "get_time",
        "Local time in a city",
        {"city": "string"},
        ("What time is it in {city}?", "Tell me the time in {city}."),
        lambda rng: {"city": rng.choice(_CITIES)},
        _time,
    ),
    _Tool(
        "get_price",
        "Price of an item",
        {"item": "string"},
        ("How much is a {item}?", "What does a {item} cost?", "Find the price of a {item}."),
        lambda rng: {"item": rng.choice(CATEGORIES["clothes"] + CATEGORIES["tools"])},
        _price,
    ),
    _Tool(
        "send_message",
        "Send a text to a person",
        {"to": "string", "text": "string"},
        ('Send "{text}" to {to}.', 'Write to {to}: "{text}"'),
        lambda rng: {
            "to": rng.choice(NAMES),
            "text": " ".join(rng.sample(PLAIN_WORDS, rng.randint(2, 5))),
        },
        _stored,
    ),
    _Tool(
        "set_alarm",
        "Set an alarm",
        {"hour": "integer", "minute": "integer"},
        ("Set an alarm for {hour}:{minute}.", "Wake me up at {hour}:{minute}."),
        lambda rng: {"hour": rng.randint(5, 23), "minute": rng.randint(10, 59)},
        _stored,
    ),
    _Tool(
        "add_event",
        "Put an event into the calendar",
        {"title": "string", "day": "string"},
        ("Put {title} on {day}.", "I have {title} on {day}, please note it."),
        lambda rng: {"title": rng.choice(HOBBIES), "day": rng.choice(DAYS)},
        _stored,
    ),
    _Tool(
        "book_train",
        "Book a train",
        {"start": "string", "end": "string", "seats": "integer"},
        (
            "Book {seats} seats from {start} to {end}.",
            "I need {seats} train seats from {start} to {end}.",
        ),
        lambda rng: {
            **dict(zip(("start", "end"), rng.sample(_CITIES, 2), strict=True)),
            "seats": rng.randint(2, 9),
        },
        _stored,
    ),
    _Tool(
        "order",
        "Order food",
        {"item": "string", "amount": "integer"},
        ("Order {amount} times {item}.", "I would like {amount} {item}, please."),
        lambda rng: {"item": rng.choice(CATEGORIES["fruits"]), "amount": rng.randint(2, 40)},
        _stored,
    ),
    _Tool(
        "save_birthday",
        "Remember a birthday",
        {"name": "string", "month": "string", "day": "integer"},
        ("The birthday of {name} is {month} {day}.", "{name} was born on {month} {day}, save it."),
        lambda rng: {
            "name": rng.choice(NAMES),
            "month": rng.choice(MONTHS),
            "day": rng.randint(1, 28),
        },
        _stored,
    ),
)


def make(rng: random.Random) -> Instance:
    """One or more calls, a request that no tool fits, or the answer to a tool's result."""
    kind = rng.choices(("call", "calls", "none", "summary"), weights=(5, 2, 1, 2))[0]
    if kind == "call":
        return _calls(rng, kind, 1)
    if kind == "calls":
        return _calls(rng, kind, heavy_tail(rng, 2.5, 0.5, 2, MAX_CALLS))
    return _none(rng) if kind == "none" else _summary(rng)


def check(instance: Instance, content: str) -> bool:
    """Whether the content calls exactly the expected functions, or says exactly the expected
    sentence."""
    if not instance.answer.startswith("["):
        return content.strip() == instance.answer
    try:
        calls = parse_calls(content)
    except ValueError:
        return False
    return bool(calls == json.loads(instance.answer))


def parse_calls(content: str) -> list[Any]:
    """The JSON values of all ``<tool_call>`` blocks, in order; ValueError if one is not closed or
    not JSON."""
    calls = []
    for part in content.split("<tool_call>")[1:]:
        body, closer, _ = part.partition("</tool_call>")
        if not closer:
            raise ValueError("a <tool_call> is not closed")
        calls.append(json.loads(body))
    return calls


def _offer(rng: random.Random, needed: set[str]) -> tuple[dict[str, Any], ...]:
    """The needed tools and up to two more, in random order."""
    chosen = [tool for tool in TOOLS if tool.name in needed]
    others = [tool for tool in TOOLS if tool.name not in needed]
    chosen += rng.sample(others, rng.randint(0 if chosen else 1, 2))
    rng.shuffle(chosen)
    return tuple(tool.schema() for tool in chosen)


def _system(rng: random.Random) -> list[Message]:
    return [Message("system", rng.choice(SYSTEM_PROMPTS))] if rng.random() < 0.5 else []


def _request(rng: random.Random, tool: _Tool, args: Arguments) -> str:
    return rng.choice(tool.requests).format(**args)


def _plan(tool: _Tool, args: Arguments) -> str:
    return f"{tool.name}: " + ", ".join(f"{name} is {value}" for name, value in args.items())


def _call_text(tool: _Tool, args: Arguments) -> str:
    return f"<tool_call>\n{json.dumps({'name': tool.name, 'arguments': args})}\n</tool_call>"


def _calls(rng: random.Random, kind: str, count: int) -> Instance:
    kinds = rng.sample(TOOLS, min(count, rng.randint(1, 3)))
    chosen = [(tool, tool.draw(rng)) for tool in (rng.choice(kinds) for _ in range(count))]
    requests = [_request(rng, tool, args) for tool, args in chosen]
    opener = rng.choice(("The user wants one thing.", "One call is enough.", "I look at my tools."))
    if count > 1:
        opener = rng.choice(("I need {0} calls.", "That is {0} calls.")).format(count)
    calls = [{"name": tool.name, "arguments": args} for tool, args in chosen]
    return Instance(
        family=FAMILY,
        kind=kind,
        messages=(*_system(rng), Message("user", " ".join(requests))),
        reasoning="\n".join([opener, *(_plan(tool, args) for tool, args in chosen)]),
        content="\n".join(_call_text(tool, args) for tool, args in chosen),
        answer=json.dumps(calls),
        tools=_offer(rng, {tool.name for tool, _ in chosen}),
    )


def _none(rng: random.Random) -> Instance:
    tool = rng.choice(TOOLS)
    offered = _offer(rng, set())
    while any(offer["function"]["name"] == tool.name for offer in offered):
        offered = _offer(rng, set())
    return Instance(
        family=FAMILY,
        kind="none",
        messages=(*_system(rng), Message("user", _request(rng, tool, tool.draw(rng)))),
        reasoning=f"That would need {tool.name}.\nI do not have it.",
        content=NO_TOOL,
        answer=NO_TOOL,
        tools=offered,
    )


def _summary(rng: random.Random) -> Instance:
    tool = rng.choice(TOOLS)
    args = tool.draw(rng)
    result, sentence = tool.outcome(rng, args)
    messages = (
        *_system(rng),
        Message("user", _request(rng, tool, args)),
        Message("assistant", _call_text(tool, args)),
        Message("tool", json.dumps(result)),
    )
    told = ", ".join(f"{name} is {value}" for name, value in result.items())
    return Instance(
        family=FAMILY,
        kind="summary",
        messages=messages,
        reasoning=f"The tool says: {told}",
        content=sentence,
        answer=sentence,
        tools=_offer(rng, {tool.name}),
    )
