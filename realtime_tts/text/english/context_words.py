"""Function words, and other words that show the class of a word beside them."""

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


MODALS = _set(
    """
    can could will would shall should may might must cannot ought gonna wanna gotta i'll you'll he'll she'll it'll
    we'll they'll who'll that'll i'd you'd he'd she'd we'd they'd do does did let's lets please to dare
    """
)
NEGATIONS = "n't"
SUBJECTS = _set("i you we they he she who y'all")
HAVE = _set("have has had having i've you've we've they've who've should've would've could've")
BE = _set(
    """
    am is are was were be been being i'm you're he's she's it's we're they're that's there's who's what's isn't
    aren't wasn't weren't
    """
)
LINKING = BE | _set(
    """
    feel feels felt seem seems seemed look looks looked become becomes became stay stays stayed remain remains
    remained get gets got go goes went going gone sound sounds
    """
)
DETERMINERS = _set(
    """
    a an the this these those every each another any some no both either neither which what whose my your his her
    its our their one's much many several few all more most less such two three four five six seven eight nine ten
    twenty thirty hundred thousand million first second third next last other own same
    """
)
OBJECTS = _set(
    """
    it them him us me you yourself myself himself herself themselves everything anything something nothing everyone
    someone anyone anybody somebody everybody
    """
)
OPENERS = (
    _set(
        """
    a an the this that these those my your his her its our their some any all each every both another one two three
    four five six seven eight nine ten no more
    """
    )
    | OBJECTS
)
"""They begin an object: "record the", "use it"."""
PREPOSITIONS = _set(
    """
    of in on at by for with from into about as than without under over between during through after before against
    per like via until since within across along around behind beyond despite toward towards upon among
    """
)
PARTICLES = _set("up down out off away back apart along")
CONJUNCTIONS = _set(
    """
    and or but nor yet so then if when because that while unless although though where how why
    """
)
ADVERBS = _set(
    """
    not never always also just only then now again still often ever already really usually sometimes probably
    actually currently simply even soon rather better rarely seldom regularly daily generally normally typically
    """
)
INTENSIFIERS = _set(
    """
    very so too how as quite pretty rather more most less least extremely fairly really incredibly
    """
)
ADJECTIVES = _set(
    """
    new old good bad great poor big small large little long short high low recent early late best better worst worse
    main major minor key only single double full empty free strong weak real true false fresh raw common rare human
    public private national local online digital daily weekly monthly annual criminal medical legal social heavy
    light clean dirty fair safe hot cold warm cool slow fast hard soft easy simple final total whole entire perfect
    close live world lame organic sharp steep huge brief quick open secret official written dead blue red green
    black white british american
    """
)
ADJECTIVE_END = re.compile(r".{2,}(?:ous|ful|ive|able|ible|less|ical|ial|ic|ish|ary|est)$")
NOT_PLURAL = _set(
    """
    is was has does this its his us yes as thus perhaps always less unless across news plus bus gas ours yours
    theirs hers sometimes
    """
)
PLURALS = _set("people children men women police folks cattle kids teeth feet mice others both")
SINGULAR_END = ("ss", "us", "is", "'s")
COMMON_VERBS = _set(
    """
    make makes made take takes took give gives gave show shows showed need needs needed want wants wanted set sets
    break breaks broke sign signs signed see sees saw find finds found buy buys bought sell sells sold use uses used
    hold holds held keep keeps kept play plays played offer offers offered provide provides provided face faces
    faced cause causes caused require requires required include includes included add adds added pay pays paid eat
    eats ate create creates created contain contains contained report reports reported under issue issues issued no
    """
)
LETTING = _set("help helps let lets make makes made")
CAUSING = LETTING | _set("see saw watch hear heard have had")
INDEFINITE = _set("everyone everybody someone somebody anyone anybody nobody it he she who which that")
TIMES = _set("early late soon today tomorrow forever there here now daily again together well")

NEVER_NOUNS = _set(
    """
    live separate close perfect frequent absent intimate legitimate appropriate desolate overcast crooked
    """
)
"""Their default pronunciation is that of the adjective or adverb."""
ADJECTIVES_BY_DEFAULT = _set("content invalid covert overweight closer upset overhead")

PAST_SIGNS = _set("yesterday ago once earlier previously finally recently")
PAST_PHRASES = re.compile(
    r"\b(?:last (?:night|week|month|year|time|summer|winter|spring|fall|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday)|this morning|in (?:nineteen|two thousand|twenty)|"
    r"when i was|as a (?:child|kid)|at school|the other day|was|were|said|thought|felt|loved)\b"
)
DEFINITE = _set("it that this the your his her their about somewhere an a all one every")
RELATIVES = _set("which that who")
HABIT_SIGNS = _set(
    """
    always usually often sometimes daily every rarely seldom weekly never mostly regularly
    """
)
WITH_THE_METAL = _set(
    """
    pipe pipes paint poisoning acid bullet bullets crystal weight weights glass battery batteries solder shot ore
    plated free levels exposure contamination
    """
)
FISH = _set(
    """
    fish fishing fisherman lake river sea striped caught catch grilled largemouth smallmouth fillet
    """
)
SMALL_THINGS = _set(
    """
    detail details amount amounts quantity quantities particle particles difference differences trace traces change
    changes fraction size variation variations proportion organisms
    """
)
SCHOLARS = _set(
    """
    man men woman women scholar scholars professor judge judges friend counsel society colleague person people
    """
)
LETTERED = _set(
    """
    vitamin plan grade class type option group team hepatitis section part appendix exhibit point side note letter
    level size row block building gate platform terminal line key choice answer version model zone series category
    schedule ward hall
    """
)

FUNCTION_WORDS = (
    MODALS | SUBJECTS | HAVE | BE | DETERMINERS | OBJECTS | PREPOSITIONS | PARTICLES | CONJUNCTIONS
) - _set("lets own same second third next last other") | _set("there here")
