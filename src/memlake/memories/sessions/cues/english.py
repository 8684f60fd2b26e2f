"""English: how long something holds, the forms of a clause, who is bound, what a session leaves open."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    """Phrases as they are looked for among words between blanks."""
    return tuple(f" {' '.join(phrase.split())} " for phrase in text.split(";") if phrase.strip())


# -- how long it holds ------------------------------------------------------------------------

# One of these makes a rule of whatever it stands in.
LASTING = _phrases(
    """all future; next time; for future; in all future; from now on; from now onwards; from here on; from today;
    from this point on; from tomorrow on; from this day on; going forward; moving forward; henceforth; in future;
    in the future; as a rule; as a general rule; new rule; house rule; rule of thumb; the rule is; our rule is;
    under no circumstances; at all times; no exceptions; without exception; ever again; keep in mind;
    bear in mind; for future reference; on principle; as a matter of principle; our convention is;
    the convention is; our policy is; the policy is; our standard is; starting today; starting now;
    starting tomorrow; starting next week; effective immediately; as a matter of course; that's final;
    that is final; and that's that"""
)
# One of these makes a rule of an order, or of what is said of all things of a kind.
REPEATED = _phrases(
    """in this repo; in this project; in our repo; in this codebase; in our codebase; in our team; at our company;
    around here; always; never; every time; each time; whenever; any time; anytime; by default; no longer;
    anymore; any more; in general; generally; everywhere; consistently; without asking; only ever; no matter;
    across the board; before each; before every; after each; after every; for each; for every;
    at the end of every; at the end of each; unless i; unless we; unless you; until i say; on every; on each;
    in every; in each; with every; with each; to every; to each"""
)
# A ban with one of these is meant for good, whatever it is about.
FOR_EVER = _phrases(
    """again; ever; anymore; any more; without asking; unless i; unless we; unless asked; unless told; every time;
    each time; all the time; always; without my; without checking; without telling; without permission;
    without review"""
)
INTRODUCING = _phrases(
    """rules; conventions; guidelines; ground rules; preferences; our style; code style; house style; please follow;
    remember; keep to; stick to"""
)
# An order with one of these is for this moment.
MOMENTARY = _phrases(
    """right now; yet; today; tonight; tomorrow; this time; for now; for the moment; at the moment;
    for the time being; this once; until monday; until tomorrow; until then; until later; until tonight;
    until friday; until next; later; this morning; this afternoon; this evening; in a minute; so far; this week;
    in this pr; in this commit; for this one; just for this; already; still; meanwhile; temporarily; for a sec;
    for a second; now; next week; on vacation; on holiday; this month; this sprint; until i; until he; until she;
    until they; until it; until the; as a test; for testing"""
)
TODAY = _phrases(
    """today; tonight; right now; this morning; this afternoon; this week; tomorrow; for now; for the moment;
    at the moment; this time; this once"""
)
UNSURE = _phrases(
    """maybe; perhaps; i wonder; not sure; i guess; might be; what if; suppose; imagine; could be; in theory;
    possibly; thinking about; i was thinking; wondering; hypothetically; it looks like; it seems; seems to;
    if only; would be nice; i wish; kind of; apparently; no idea whether"""
)
REPORTED = _phrases(
    """it says; docs say; documentation says; readme says; manual says; error says; linter says; compiler says;
    log says; page says; article says; he says; she says; they say; it said; people say; everybody says;
    everyone says; docs said; according to; claude.md says; agents.md says; changelog says; comment says;
    message says; they claim; it claims; it tells; they told me; he told me; i read; i heard; the output"""
)
# Dropped again: a first clause that is one of these. `never mind the docs` drops the docs alone.
DROPPED = frozenset(
    phrase.strip()
    for phrase in _phrases(
        """never mind; nevermind; nvm; forget it; forget that; forget about it; forget about that; scrap that; scrap it;
    drop that; drop it; drop that idea; ignore that; scratch that; strike that; disregard that; on second thought;
    on second thoughts; forget what i said; ignore what i said; ignore my last message; i take that back;
    take that back; cancel that; forget i said that; forget i said anything; let's not; let's drop it;
    not needed after all; i changed my mind; changed my mind; that was wrong; i was wrong; bad idea"""
    )
)
IDLE = _phrases(
    """call it a day; next time we; next time i; see you next time; never mind; nevermind; no worries; no problem;
    no rush; no hurry; no idea; no need; don't worry; do not worry; don't bother; never heard; no clue; no thanks;
    no thank you; don't know; don't care; don't understand; don't remember; don't get it; don't think; no way;
    no doubt; makes no sense; no luck; remember me; can't remember; no longer needed; don't forget; never again i;
    don't panic; no pressure; no offence; no offense; no harm; no big deal; don't see"""
)

# -- the forms of a clause --------------------------------------------------------------------

# What leads in and says nothing: the first alone, the others only before a comma or colon.
LEADS = _words(
    """pls plz strictly absolutely honestly please and but so also then well ok okay hey hi btw actually just simply
    kindly oh ah hm hmm hmmm um because"""
)
LEADS_APART = _words(
    """yes yep yeah sure good great fine cool nice perfect thanks right alright again instead additionally finally
    first secondly lastly no nope nah wrong correction stop wait sorry note fyi remember rule reminder decision
    decided agreed generally important attention listen look ps team guys next everyone all exactly hmm rather thx
    meanwhile style preference convention policy question update heads-up morning hello argh ugh"""
)
LEAD_PHRASES = tuple(
    tuple(phrase.split())
    for phrase in _phrases(
        """i told you yesterday; i told you already; i already told you; i already said; in this repo; in this project;
    in our repo; in this codebase; in our codebase; in our team; at our company; around here; mind that;
    not like this; not this way; can we agree that; can we agree on; can we agree; let us agree that; hold on;
    one more thing; one thing; another thing; one last thing; by the way; in fact; that is wrong; that's wrong;
    that's not right; that is not right; not like that; not that; looks good; sounds good; as i said; like i said;
    as said; for the record; to be clear; good morning; i said; i told you; as i told you; i meant; i mean;
    i repeat; please note that; please note; please remember that; please remember; remember that; remember to;
    note that; keep in mind that; keep in mind; bear in mind that; for future reference; from now on;
    from now onwards; from here on out; from here on; from today on; from today; going forward; moving forward;
    in future; in the future; henceforth; starting today; starting now; new rule; house rule; make sure to;
    make sure that; make sure you; make sure; be sure to; in general; as a rule; as a general rule;
    effective immediately; quick note; side note; can you; could you; would you; will you; i want you to;
    i'd like you to; i would like you to; i need you to; you should; you must; you have to; you need to; you can;
    you may; try to; starting tomorrow; from this point on; from tomorrow on; we decided that; we agreed that;
    the rule is; our rule is; rule of thumb; on principle; no wait; from this day on; under no circumstances;
    at all times; i'd say; i think; our convention is; the convention is; our policy is; the policy is;
    our standard is; that said; thank you; thanks but; it would be great if you; it is important that you;
    it's important that you; too many times now; how often do i have to say it; just so you know; so you know;
    for your information; and yes; and no; ground rule; by default"""
    )
)
CUT_LEADS = 2  # of a kept text, a lead of at most so many words apart from LASTING ones reads well without
CORRECTING = _words("no nope nah wrong correction stop wait rather actually")
CORRECTING_PHRASES = _phrases(
    """not like this; not this way; you keep; you still; why do you keep; you always; you never; that's wrong;
    that is wrong; that's not right; that is not right; not like that; i said; i told you; as i said; i meant;
    like i said; as i told you; i repeat; how often do i have to"""
)
REMEMBERING = _phrases(
    """mind that; remember that; please remember; remember ,; note that; please note; keep in mind; bear in mind; fyi"""
)
ASKING = _words(
    """what what's whats which who who's whose whom where where's why how how's is are was were do does did can could
    would will shall should has have had am isn't aren't doesn't didn't won't wouldn't shouldn't may might any
    anything anyone"""
)
AFTER_WHEN = _words("will is was are were do does did can should would")
TAGS = _words("right correct huh eh ok okay no yes")
FRONTS = _words(
    """when whenever if for in on before after while during with as since unless until within inside under at once"""
)
JOINING = _words("and but so then because since while whereas")
STARTERS = _words(
    """we i don't never always please use do not only keep no stop avoid it's let's our they he she you"""
)
GROUPS = _words("we everybody everyone")
HABITUALLY = _words(
    """always only usually generally normally typically also all both just really strictly still here now"""
)
NEGATING = _words("we no longer don't do not never ever also just really")
NO_DENIAL = _words("know need think see understand have get care mind remember got seem want") - _words("want")
HABITS = _words(
    """use keep write run name call store deploy follow put prefer require avoid commit merge squash tag release test
    support target ship format indent document log review host pin version treat count measure report say stick
    rely sort rebase push add declare validate lint spell round save cache mock return raise throw handle send
    go-with number abbreviate capitalise capitalize encode escape sign stub train evaluate label annotate pay bill
    price translate"""
)
# Begins an order: what comes first in a clause and is one of these is no noun.
PASSING_ORDERS = _words(
    """run commit push merge continue start restart open close show look go wait try rerun deploy fix undo revert
    explain tell list print install update pull rebase proceed finish train touch kill change delete remove rename
    move edit read worry bother do ask add stop check build test include create reset"""
)
USING = _words(
    """use import call hardcode hard-code log store mock rely put write name assume guess invent paste translate
    format abbreviate keep return send take mention mix nest catch swallow cast indent shorten expose leak include
    quote spell commit-to publish share embed inline duplicate copy reformat prefix suffix capitalize capitalise"""
)
CHOOSE = _words(
    """stick stay adopt choose settle drop standardise standardize limit cap prefer pick go replace switch"""
)
BEHAVE = _words(
    """ask check confirm tell warn verify lint explain propose show mention say cite quote announce consult notify"""
)
# -- bounds (`bounds.py`)
BOUNDS = _phrases(
    """at most; at least; no more than; no less than; no fewer than; or more; or fewer; or less; is the max; max;
    maximum; is the limit; is the minimum; minimum; not more than; not less than; is enough; or older; or newer"""
)
COMPARING = _words(
    """below above under over than within beyond exceeds exceed smaller larger older newer longer shorter higher
    lower"""
)
DESCRIBING = _words(
    """takes took has have had was were got get gets see saw there shows showed returned returns costs cost ran runs
    found finds contains i'm already says said left remain remains wants spent lost need needs uses used printed
    counted measured passed passes grew went goes"""
)
ANSWER_ORDERS = _words(
    """show list tell explain give find name print try wait run read look check write generate suggest propose send
    open count compare test what how"""
)
DROPPING = _words("drop delete purge expire remove close cancel lock log-out archive forget erase clear")
LONG_UNITS = _words("day days week weeks month months year years")
BOUNDING = _words("""limit cap restrict keep set bound make hold allow stop stay reduce raise lower expire""")
ORDERS = PASSING_ORDERS | USING | CHOOSE | BEHAVE | BOUNDING | HABITS | _words(
    """give grant make prefer answer reply respond talk speak begin end document separate wrap group leave round
    escape sign link attach describe clean ensure follow treat work think mark note order number sort split join"""
)  # fmt: skip
FORBIDDING = _words("don't dont do not no avoid stop quit")
SECRET = _words("password passphrase token secret login credentials pin key pw pwd")  # kept by a rule alone
BARE_BANS = frozenset(
    (*ban.split(), *end.split())
    for ban in ("don't", "dont", "do not", "stop")
    for end in ("", "that", "it", "doing that", "do that")
)
TAGGING = _words("don't do doesn't does isn't is aren't are didn't did can't can won't will wasn't haven't")
TAGGED = _words("we you it they he she i")
HELD = _words("it that this them these those one him her the my your our its their")  # what is at hand, not of a kind
PRONOUNS = _words("""it that this them these those one him her here there so everything something he she they""")
HELD_BY_LIKING = HELD | _words("how what where when to your you") - _words("to")
POINTING = _words("it this them these those here there he she they")
OTHERS = _phrases(
    """the other; the first; the second; the third; the last; the one; the same; the old one; the new one;
    the latter; the former"""
)
CONDITIONS = _words(
    """before when whenever if after unless once first only without in on inside outside for at beforehand until"""
)
PLACED = _words("""in on to for without inside outside from with after before at as under within into per between""")
STATUS = _words(
    """found was were is are has have had failed left yet needed works worked available errors error warnings changes
    change output result results answer response matches match access idea difference issues problems reply luck"""
)
MUST = _words("must mustn't should shouldn't has have needs need may shall")
COPULAS = _words(
    """is are be must should was were isn't aren't go goes belong belongs live lives have has get gets start starts
    end ends need needs use uses come comes stay stays it's that's applies apply"""
)
EVERY = _words("every each all any no new public")
NORMS = _phrases(
    """not allowed; is forbidden; are forbidden; is required; are required; is mandatory; are mandatory; is banned;
    are banned; is off limits; are off limits; may only; can only; may not; are not to be; is not to be;
    are to be; is to be; must not; must never; must always; should never; should always; should not; should only;
    must only; has to be; have to be; needs to be; need to be; is never to; are never to; is a must; is a no-go;
    are a no-go; is taboo; are taboo; not acceptable; counts as; count as; belongs in; belong in; belongs to;
    goes through; go through; go via; goes via"""
)
NO_ORDER = _words(
    """get have see complains the a an same been had seen heard mind happened works worked fails failed knew know
    thought wanted good nice great happy fun sad there here this that it is was are were has returns returned crashes
    breaks gets hangs
    seems throws happens understood got said told liked loved wondered forget ends shows takes gives empty red
    wrong forgets saw mine really"""
)
WHEN_TO = _words("before when whenever if after unless once first beforehand")
NO_PAST = _words("need feed embed seed speed proceed exceed succeed shed")
BUGS = _words(
    """fails fail failing crashes crash crashing broken breaks empty wrong slow red null none nan bug hangs missing
    weird strange flaky stuck undefined exception loses forgets returns"""
)
WISHES = _words("want prefer like need expect wish hate use write review read work merge")
ABOUT_ME = _phrases(
    """i'm an experienced; i'm a senior; i'm a junior; i am an experienced; i am a senior; i am a junior;
    i am colour blind; i'm colour blind; i am color blind; i'm color blind; i am left-handed; i'm left-handed;
    i'm new to; i am new to; i'm a beginner; i am a beginner; i don't speak; i speak; call me; my name is;
    i'm dyslexic; i am dyslexic; my time zone is; my timezone is; my pronouns; i'm based in; i am based in;
    my editor is; my shell is; my keyboard; i don't read; i can't read; i cannot read; i'm used to; i am used to"""
)
PREFERENCES = _phrases(
    """i'd appreciate; i would appreciate; it annoys me; it bugs me; i don't need you to; i don't want you to;
    i prefer; i'd prefer; i would prefer; i much prefer; i strongly prefer; i really prefer; i generally prefer;
    i usually prefer; we prefer; we'd prefer; i'd rather; i would rather; i'd much rather; i hate; i really hate;
    i dislike; i can't stand; i cannot stand; i don't like; i do not like; i really don't like; i love;
    i really like; i like; my preference is; i favour; i favor; i'm a fan of; i am a fan of; i'm not a fan of;
    i am not a fan of; i'm no fan of; i am no fan of; i don't want; i do not want; i never want; i always want;
    i'm allergic to; not a fan of; we like; we hate; we don't like; i find it easier; i want all; i want every;
    i only want; we only want; i don't need"""
)
ANSWERING = _words("answer reply respond talk speak")
STYLE = _words(
    """short shorter brief concise terse simple plain english german french spanish italian dutch portuguese polish
    chinese japanese korean russian metric imperative uppercase lowercase snake_case camelcase kebab-case
    pascalcase bullets prose markdown utc british american alphabetical direct blunt honest formal informal quiet
    verbose"""
)
REPLIES = _words("""answers replies responses explanations messages summaries comments commits functions diffs prs""")
CHOOSING = _phrases(
    """we ditched; we retired; we replaced; we got rid of; we renamed; we abandoned; we moved off; we left; we'll do;
    we will do; let's do without; let us do without; we do without; decided to; decided that; decided on;
    agreed on; agreed that; agreed to; let's go with; lets go with; let us go with; go with; we go with;
    we'll go with; we will go with; i'll go with; we're going with; i'd go with; let's call it; let's call;
    let's switch to; let's move to; we'll use; we will use; we stay with; we stay on; we stay at; we stick with;
    we stick to; stick with; stick to; stay with; stay on; we settled on; we decided; we've decided; i decided;
    i've decided; i have decided; we agreed; we've agreed; it is decided; we're switching to; we are switching to;
    we switched to; we moved to; we migrated to; we're moving to; we drop; we dropped; we're dropping;
    in favour of; in favor of; the decision is; final decision is; we're using; we are using; we keep; let's keep;
    let's use; lets use; let's stick; let's stay; let's take; let's drop; let's limit; let's cap; let's avoid;
    let's settle; let's adopt; let's choose; let's not use; let's not have; let's standardise; let's standardize;
    we chose; we choose; we picked; we're staying with; we are staying with; we won't use; we will not use;
    let us use; i'm going with; i choose; i've chosen; we're sticking; we are sticking; let's pick; i pick"""
)
LIMITS = _words(
    """limit limits cap caps max maximum min minimum timeout ttl threshold quota retention most least more than under
    below within restrict bound ceiling budget retries attempts expire expires rate"""
)
LIMIT_NAMES = _words(
    """cutoff cut-off window interval tolerance margin cooldown expiry lifetime precision depth limit cap max maximum
    min minimum timeout ttl threshold quota retention ceiling budget deadline size retries length"""
)
UNITS = _words(
    """second seconds sec secs minute minutes min mins hour hours day days week weeks month months year years ms s h
    d kb mb gb tb kib mib gib bytes percent % characters chars lines tokens retries attempts tries rows items
    requests times cents euros dollars words files pages users connections workers threads"""
)
NUMBERS = _words("""two three four five six seven eight nine ten twelve fifteen twenty thirty fifty hundred half""")
SAYING = _words("says said decided insists requires")
APPROVED = _phrases("agreed; is fine with; is ok with; is okay with; gave the go; said yes")
NO_PERSON = _words(
    """it he she they we i you the a an this that docs doc readme manual linter compiler error log logs output test
    tests message comment page article blog stackoverflow everybody everyone people who what there spec ticket
    console terminal python ruff mypy eslint tsc git npm docker codex claude copilot chatgpt if when so and but as
    no yes ok use claude.md agents.md github google wikipedia pytest ci yep nope all my our your his her their"""
)
PEOPLE_DO = _words(
    """owns maintains handles reviews approves decides runs signs manages writes uploads does leads pays releases
    deploys merges translates is takes answers knows"""
)
REGULARLY = _phrases(
    """all; every; each; always; on mondays; on tuesdays; on wednesdays; on thursdays; on fridays; on weekends; owns;
    maintains; is responsible for; takes care of; is in charge of"""
)
REPORT_ONCE = _phrases(
    """tell me when; tell me if; tell me once; let me know; show me; ask me when it; tell me whether; say when;
    tell me which"""
)

# -- a yes, and a proposal that is worth keeping ----------------------------------------------

ASSENT = _words(
    """yes yep yeah yup sure ok okay k do it that so go ahead please sounds good great agreed fine exactly right
    perfect lets let's make the first i like works for me absolutely definitely of course with correct deal done
    alright thanks proceed
    one second two option a b 1 2 it's its way
    both all as you suggest suggested proposed say said we'll will idea keep this"""
)
PROPOSING = _phrases(
    """shall i; shall we; should i; should we; i would; i'd; i suggest; i recommend; i propose; do you want;
    would you like; my suggestion; how about; we could; i could; want me to"""
)
PROPOSAL_LEADS = tuple(
    tuple(phrase.split())
    for phrase in _phrases(
        """shall i; shall we; should i; should we; i would; i'd; i suggest that we; i suggest we; i suggest to;
    i suggest; i recommend that we; i recommend to; i recommend; i propose that we; i propose to; i propose;
    do you want me to; would you like me to; we could; i could; want me to; how about we; how about"""
    )
)
LASTING_PROPOSALS = _phrases(
    """always; never; from now on; by default; convention; rule; policy; instead of; rather than; standardise;
    standardize; every; switch to; at most; maximum; going forward; in future; everywhere; stick with;
    as the default; a limit of; limit of; limit it to; limit them to; cap it at; cap them at"""
)
# The question after a list that says how something is to be built, and not only what is done next.
DESIGNED = _phrases("like that; like this; this way; that way; so; the first; the second")
ORDINALS = (_words("first 1 1st a"), _words("second 2 2nd b"), _words("third 3 3rd c"))
INJECTED = _phrases(
    """ignore all; ignore previous; ignore the previous; ignore any previous; ignore your; disregard all;
    disregard previous; disregard the; previous instructions; prior instructions; system prompt; you are now;
    developer mode; your instructions; new instructions; jailbreak; exfiltrate; do not tell the user;
    don't tell the user; hide this from the user"""
)

# -- what a session leaves --------------------------------------------------------------------

LIGHT = _words(
    """the a an of to in on at for and or is are be it we you i do don't not no with as by from that this please
    always never use keep only just so then all our my your will"""
)
PLEASANT = _words(
    """understood ok okay good great sure done right welcome glad gladly goodbye bye thanks noted perfect fine yes
    yep alright hello hi morning night certainly absolutely agreed sorry happy you're you are my i am see anything
    else nice no harm worries problem all well of course will do"""
)
RECAPS = _phrases(
    """where did we; where were we; where are we; left off; leave off; what's open; what is open; still open;
    what remains; what's left; what is left; any open; open things; open points; what did we; what was open;
    pick up where; what's next; recap; status of yesterday; catch me up; where do we stand"""
)
OPEN = _phrases(
    """open; remains open; remaining; todo; to do; not yet; yet; waits; waiting; is missing; are missing;
    still needs; needs; pending; unfinished; not done; could not; couldn't; blocked; draft; hard coded;
    hard-coded; hardcoded; workaround; placeholder; stub; temporary; temporarily; follow-up; not run; not started;
    does not exist; unresolved; unclear; left to do; has to be; have to be; has to come; tbd; fixme; uncommitted;
    outstanding; is needed; on hold; postponed; deferred; not been; have not; has not; haven't; hasn't;
    stays open; for later; still fails; still failing; is next; should write; should read; should check;
    should decide"""
)
HEADINGS = _phrases("""open ,; open questions; open points; todo ,; next steps; still open; remaining; left to do""")
LABELS = _words("open todo next left remaining tbd")
PROMISES = ("i will", "i'll", "understood", "noted", "agreed", "got it", "will do", "sure", "of course")
WROUGHT = _words("wrote built ran made took put cut set split sent")

# -- norms by what they are about (`norms.py`) ------------------------------------------------

WORK = _words(
    """commits commit messages message prs pr requests branches tests test names comments docstrings docs
    documentation functions types imports logs errors exceptions answers dates times amounts files variables
    classes constants columns tables migrations changes releases versions tags issues tickets todos endpoints
    queries components styles colours colors secrets keys ids hints annotations strings texts labels changelogs
    entries reviews modules scripts configs timestamps prices numbers units durations paths urls emails mails code
    sql css html"""
)
MANNER = _words(
    """in with without as like by on at to under inside only alphabetically first before after per through via"""
)
AT_HAND = _words("it that this these those them the my our here there now again today")
FINDING = _words(
    """find show list look open run fix check explain tell print add remove delete count read update get give"""
)
GETTING = _words("""gets goes needs belongs must should comes starts ends lives passes is requires""")
CASES = _words("if when whenever before after unless in once")
ANY = _words("a an any anything something anybody somebody someone every each new unsure")
PREFERRING = _words("prefer favour favor choose pick")
REPORTERS = _words(
    """docs doc documentation readme manual linter compiler error log output test message comment page article blog
    spec specification ticket console warning book tutorial api internet"""
)
THIRD = _words(
    """team legal marketing security compliance management accounting finance support design boss cto ceo client
    customer"""
)
THIRD_SAYS = _words("wants requires insists needs says decided demands")
PUBLIC = _words("""customers users clients people guests visitors competitors readers players tests builds""")
STARTING = _words("start begin continue go proceed leave")
KEEPING = _words("keep retain hold store expire delete archive cache")
LIMIT_FIRST = _words("max maximum min minimum")
PLACING = _words("go goes belong belongs live lives")
OPINIONS = _words("""fine ok okay good great better right correct wrong done there not nice enough ready too so""")
