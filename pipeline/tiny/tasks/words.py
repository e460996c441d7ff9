"""Word lists that the task generators draw from. Ordinary English, written for this project."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(text: str) -> dict[str, str]:
    # "key:value" separated by white space; an underscore stands for a space.
    entries = (entry.replace("_", " ").partition(":") for entry in text.split())
    return {key: value for key, _, value in entries}


NAMES: Final = _words(
    """
    Mia Tom Ada Ben Eva Leo Ida Max Zoe Sam Lea Finn Nora Paul Ruth Omar Lily Jack Emma Noah
    Anna Hugo Clara Oscar Maya Felix Alma Victor Rosa Simon Greta Peter Ines Lucas Vera
    Martin
    """
)

CATEGORIES: Final[dict[str, tuple[str, ...]]] = {
    "fruits": _words(
        "apple pear plum peach grape lemon lime melon mango cherry banana orange fig kiwi berry"
    ),
    "animals": _words(
        "dog cat horse cow sheep goat pig mouse rabbit fox wolf bear lion tiger duck goose"
    ),
    "colours": _words(
        "red blue green yellow black white brown pink grey purple gold silver violet"
    ),
    "vehicles": _words("car bus train truck bike boat ship plane tram van taxi ferry rocket wagon"),
    "tools": _words(
        "hammer saw drill wrench shovel rake axe pliers chisel ladder brush file level"
    ),
    "clothes": _words("shirt coat hat scarf glove sock shoe boot dress skirt jacket sweater belt"),
}

NOUNS: Final = _words(
    """
    house garden river mountain street window door table chair lamp book letter paper pencil
    bottle glass plate spoon bread butter cheese sugar water coffee tea milk stone wood
    metal cloud rain snow wind storm summer winter spring autumn morning evening night day
    week month year school teacher student doctor farmer driver baker painter sailor king
    queen friend brother sister mother father child baby forest field island beach ocean
    valley bridge tower castle market station engine wheel mirror basket blanket candle
    carpet pillow hammock jungle lantern magnet needle orchard pepper quarter ribbon saddle
    ticket umbrella village whistle yard zebra anchor button circle desert eagle feather
    guitar hill ink jewel kettle leaf monkey nest olive pocket quilt rope seed tent
    """
)
ADJECTIVES: Final = _words(
    """
    big small old new young long short tall low high warm cold hot cool dry wet clean dirty
    fast slow early late happy sad quiet loud bright dark heavy light soft hard sweet sour
    rich poor strong weak round flat deep wide narrow empty full open safe calm kind brave
    clever gentle honest lucky proud simple smooth sharp
    """
)
VERBS: Final = _words(
    """
    finds sees likes takes brings holds keeps paints cleans moves opens closes carries buys
    sells builds breaks mends counts draws drops hides lifts loves makes needs pulls pushes
    reads shows throws visits wants washes watches
    """
)
CAPITALS: Final = _pairs(
    """
    France:Paris Italy:Rome Spain:Madrid Germany:Berlin Austria:Vienna Poland:Warsaw
    Norway:Oslo Sweden:Stockholm Finland:Helsinki Denmark:Copenhagen Greece:Athens
    Portugal:Lisbon Ireland:Dublin Hungary:Budapest Egypt:Cairo Kenya:Nairobi
    Japan:Tokyo China:Beijing India:New_Delhi Canada:Ottawa Peru:Lima Chile:Santiago
    Cuba:Havana Iceland:Reykjavik
    """
)
OPPOSITES: Final = _pairs(
    """
    big:small old:young long:short warm:cold dry:wet clean:dirty fast:slow
    early:late happy:sad quiet:loud bright:dark heavy:light soft:hard rich:poor
    strong:weak deep:shallow wide:narrow empty:full open:closed up:down left:right
    day:night win:lose push:pull
    """
)
SOUNDS: Final = _pairs(
    """
    dog:barks cat:meows cow:moos sheep:bleats horse:neighs duck:quacks lion:roars
    wolf:howls pig:grunts mouse:squeaks bee:buzzes snake:hisses
    """
)
DAYS: Final = _words(
    """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
    """
)
MONTHS: Final = _words(
    """
    January February March April May June July August September October November December
    """
)
HOBBIES: Final = _words(
    """
    painting reading cooking running singing dancing swimming gardening chess football
    hiking knitting
    """
)

PLAIN_WORDS: Final[tuple[str, ...]] = tuple(
    sorted({*NOUNS, *ADJECTIVES, *(word for words in CATEGORIES.values() for word in words)})
)
"""Lower-case words for lists and spelling, each once."""

PROSE: Final[str] = """\
This is a short text about ordinary things, so that common words become single tokens. The people
who wrote it wanted to have most of the usual endings and beginnings in it: nothing special,
something simple, everything that one reads in letters, questions and answers. Could you please
explain how this works? Write a function that returns the number of items in a list, and then
describe what it does. What is the difference between these two ideas, and which of them would you
recommend? There are many reasons for that. First, it was easier; second, they had been there
before; and third, because nobody should have to wait longer than needed. When we talk about
information, education, government, science and history, we often use longer words: the
development of an application, the management of a community, the movement of a station, the
relation between a question and its solution. He said that he would come back later, but she
thought it might be better to leave. If you want to learn more about the world, start with a map.
I think that the following example can help: suppose that a train leaves at nine in the morning
and another one leaves an hour later. Which one arrives first? It depends on their speed. Let us
create a plan, make a table, provide some details, include all important points, and generate a
summary. Thank you very much for your help! You're welcome. Don't worry, it's not difficult;
they're only asking for a list of three interesting places to visit during the holidays. The
company is going to change its product, which means that customers will see different prices. My
favourite part was the ending. Please give me instructions for making pancakes with eggs, flour,
milk and a little salt. Each person must bring their own cup. After the meeting, the team will
review the report and send an email to the client. In order to understand the problem, consider
the data, the model, the input and the output. A good answer is clear, correct and complete.
"""
"""Running text for the tokenizer's merges."""
