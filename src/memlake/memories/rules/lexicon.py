"""The words the merge rules know: small general lists, written by hand, each with the reason it is there."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(text: str) -> dict[str, str]:
    """`men man, children child` as a dict."""
    return dict(entry.split() for entry in text.split(","))


# -- grammar

# Carry no fact by themselves. `user` is here because every memory is about the user unless it says otherwise.
FUNCTION_WORDS = _words(
    """a an the this that these those such some any each every i me my mine myself you your yours he him his she her
    hers it its we us our ours they them their theirs who whom whose which what user one ones am is are was
    were be been being do does did doing has have had having will would shall should can could may might must let
    of to in on at by for with from as into onto upon about over through during than then so if when while where
    and or but also too both either neither plus there here very really quite just still already even only
    actually now currently nowadays today always usually often please okay ok yes well rather instead anymore
    longer hey hi hello thanks thank wow oh yeah yep sure"""
)
PREPOSITIONS = _words(
    "of to in on at for with from into onto upon about over through during near under behind and which who that"
)
# What stands after another of these is in another place or goes another way; those of one line say the same.
PLACE_GROUPS = """
    in inside within into; on onto upon every each; at; to toward towards; from off out; over above; under below beneath
    past; through; around; across; along; behind; beside near; between among; before; after; against; about; with
    without; for; outside; down; away
"""
PLACES = {word: group.split()[0] for group in re.split("[;\n]", PLACE_GROUPS) for word in group.split()}
DETERMINERS = _words("a an the this that these those my our his her their its your some")
DEFINITE = DETERMINERS - {"a", "an", "some"}
# Where what is told of a subject begins; other verbs are known by their -s.
ALWAYS_VERBS = _words(
    """is are was were has have had can cannot must should will shall needs need does do uses use takes wants keeps
    isn't aren't wasn't weren't hasn't haven't can't won't doesn't don't"""
)
# What is a verb after a number, where `days` and `shops` may be what is counted.
NO_PLURALS = _words(
    """runs lives stands lies belongs listens expires starts begins sits owns holds stores serves reports sends handles
    opens closes moves goes costs reads writes"""
)
BEFORE_VERBS = _words("only also always never usually often still now currently mostly mainly no longer not")
QUANTIFIERS = _words("one both all half either most few several many")
NEGATIONS = _words(
    """not no never none nobody nothing nowhere neither nor cannot without nicht kein keine keinen nie pas jamais
    nunca 不 没 沒 未 别 無 非"""
)
NOT_NEGATED = _words(
    "only just matter doubt later least 超 低 晚 早"
)  # `not only`, `no matter`, `no later than`, 不超过
CONTRACTED = _table(
    "isn't is, aren't are, wasn't was, weren't were, don't do, doesn't does, didn't did, can't can, won't will, "
    "shan't shall, hasn't has, haven't have, hadn't had, m am, re are, ve have, ll will, d would"
)
IRREGULAR = _table(
    """men man, women woman, children child, people person, feet foot, teeth tooth, mice mouse, wives wife, knives
    knife, lives live, leaves leave, shelves shelf, wolves wolf, ate eat, eaten eat, rode ride, ridden ride, ran
    run, wrote write, written write, drove drive, driven drive, took take, taken take, gave give, given give, went
    go, gone go, spoke speak, spoken speak, drank drink, drunk drink, sang sing, sung sing, swam swim, threw
    throw, thrown throw, held hold, kept keep, left leave, made make, built build, sent send, sold sell, bought
    buy, brought bring, thought think, caught catch, taught teach, said say, told tell, met meet, paid pay, sat
    sit, stood stand, slept sleep, spent spend, won win, wore wear, worn wear, chose choose, chosen choose, broke
    break, broken break, began begin, begun begin, knew know, known know, grew grow, grown grow, flew fly, flown
    fly, drew draw, drawn draw, fell fall, fallen fall, felt feel, found find, got get, gotten get, saw see, seen
    see, shown show, shot shoot, better good, best good, two 2, three 3, four 4, five 5, six 6, seven 7, eight 8,
    nine 9, ten 10, eleven 11, twelve 12, lying lie, dying die, tying tie, using use, used use, uses use"""
)
PAST = _words(
    """ate rode ran wrote drove took gave went spoke drank sang swam threw built sent sold bought brought caught said
    told met paid sat slept spent won wore chose broke began flew drew fell found got saw
    hurt lost came became felt"""
)
NUMBER_WORDS = _words(
    "two three four five six seven eight nine ten eleven twelve twenty fifty hundred thousand once twice"
)
INDEFINITE = _words(
    """a an some any several many few two three four five six seven eight nine ten there someone somebody nobody
    people no one another"""
)
PRONOUNS = _words("he she it they this that these those we you who which what there")

# -- words that mean the same, for comparing: the first of each group stands for all
SYNONYM_GROUPS = """
    child kid youngster; man guy gentleman; woman lady; person human individual; boy lad; dog puppy; cat kitten
    small little tiny; large big huge; quick fast rapid; begin start commence; finish end complete; buy purchase
    photo picture photograph; car automobile; bike bicycle; motorbike motorcycle; phone telephone mobile cellphone
    email mail; job occupation profession; manager boss supervisor; live reside dwell; film movie; color colour
    favorite favourite; jump leap; cut slice chop dice; talk speak chat; look watch gaze; shirt tshirt; ocean sea
    sofa couch; shop store; trip journey; picture image; doctor physician; error mistake; fix repair; house home
    rock stone; road street; auto automatic; repo repository; config configuration; db database; docs documentation
    allergy allergic; diabetes diabetic; asthma asthmatic; intolerance intolerant; pregnancy pregnant
    maximum max; minimum min
    postgres postgresql; js javascript; ts typescript; k8s kubernetes; vscode code; message msg; dir directory folder
"""

# -- opposites: two sentences alike but for such a pair cannot both hold
ANTONYM_PAIRS = """
    on/off in/out into/out up/down over/under above/below left/right inside/outside open/closed open/close
    near/far day/night hot/cold warm/cool big/small large/tiny high/low tall/short long/short wide/narrow
    thick/thin heavy/light dark/light bright/dark fast/slow quick/slow early/late old/young old/new first/last
    full/empty wet/dry clean/dirty hard/soft hard/easy rough/smooth sharp/blunt strong/weak rich/poor
    cheap/expensive good/bad right/wrong true/false happy/sad loud/quiet noisy/quiet calm/angry awake/asleep
    alive/dead single/married public/private manual/automatic enabled/disabled enable/disable allow/forbid
    allowed/forbidden allow/deny required/optional required/forbidden include/exclude accept/reject accept/refuse
    approve/reject add/remove add/delete create/delete insert/remove start/stop begin/finish start/finish
    push/pull lift/drop raise/lower increase/decrease rise/fall buy/sell lend/borrow give/take send/receive
    win/lose find/lose catch/miss hit/miss love/hate like/dislike follow/avoid follow/lead approach/leave
    arrive/leave arrive/depart enter/leave enter/exit come/go sit/stand stand/lie sleep/wake work/rest laugh/cry
    smile/frown whisper/shout break/fix break/repair build/destroy fill/drain fill/empty join/quit join/leave
    hire/fire lock/unlock attach/detach connect/disconnect zip/unzip pack/unpack install/uninstall mount/unmount
    wear/remove dress/undress cover/uncover load/unload tabs/spaces tab/space remote/onsite indoors/outdoors
    indoor/outdoor online/offline always/never all/none everybody/nobody everyone/nobody someone/nobody
    somebody/nobody with/without sync/async synchronous/asynchronous uppercase/lowercase
    ascending/descending horizontal/vertical internal/external minimum/maximum active/inactive visible/hidden
    safe/dangerous healthy/sick north/south east/west toward/away together/apart forward/backward
    forwards/backwards upstairs/downstairs top/bottom front/back ahead/behind friend/enemy guest/host
    grant/deny grant/refuse confirm/deny agree/disagree silent/talking silent/singing silent/speaking quiet/talking
    pass/fail succeed/fail remember/forget save/spend gain/lose earn/spend import/export upload/download login/logout
    married/divorced single/divorced odd/even full/hungry thirsty/drinking fasting/eating naked/dressed naked/wearing
    ignore/watch ignore/look shun/follow add/drop attach/remove put/remove apply/remove park/drive
    smoker/nonsmoker permanent/temporary deep/shallow sweet/sour
    smooth/bumpy straight/curly simple/complex relaxed/tense polite/rude generous/stingy kind/cruel guilty/innocent
"""

# -- a new statement that says itself that something changed
CORRECTION = re.compile(
    "|".join(
        (
            r"^\s*no\b\s*[,:;.\u2014-](?!\s*(?:but|problem|worries|thank))",
            r"^(?:correction|update|edit)\b\s*[:,-]",
            r"\bit should (?:be|have been)\b",
            r"\b(?:actually|in fact|no longer|instead|from now on|as of (?:now|today))\b",
            r"\bany ?more(?=[.,;!]|$)",
            r"(?<!not )(?<!n't )\b(?:used to|stopped|quit|gave up|has changed|replaced|i meant|was wrong|my mistake)\b",
            r"\bnot\b(?! (?:only|just)\b)[^.]{1,40}\bbut\b",
            r"\b(?:switched|moved|migrated|cut over|changed|upgraded|converted|renamed|relocated|shifted|rescheduled"
            r"|postponed)\b"
            r"(?:[^.]{1,40})?\b(?:to|from|into|until)\b",
            r"(?<!until )(?<!just )(?<!by )(?<!right )\bnow\b",
            "^不对|^不對|^错了|^錯了|不是[^。]{1,20}[而,]是|纠正|糾正|实际上|實際上",
            "其实|其實|应该是|應該是|现在|現在|不再|改用|改为|改成|搬到|换成|換成|更正|実は|今は",
            "(?:改|推迟|推遲|提前|延期?|挪|换|換|调整|調整)(?:到|至|在)",
        )
    )
)
# The clearest of them: little else needs to be shared.
EXPLICIT = re.compile(
    r"^\s*no\b\s*[,:;.—-]|^correction\b|\bit should (?:be|have been)\b|\bi meant\b|\bwas wrong\b"
    "|更正|纠正|糾正|应该是|應該是|^不对|^不對|^错了|^錯了"
)
# Tells of a change without saying what was so before.
CHANGE = re.compile(
    r"^\w+(?: \w+)? left (?=\w)"
    r"|\b(?:switched|migrated|moved|cut over|replaced|changed (?:to|from)|quit|gave up|given up|stopped|no longer"
    r"|retired|became|sold (?:the|my|his|her|their|our)|got (?:married|divorced|engaged)"
    r"|bought a (?:house|flat|car)|these days|nowadays|again|from now on"
    r"|remote(?:ly)? since)\b"
    r"|\bany ?more(?=[.,;!]|$)|(?<!until )(?<!just )(?<!by )(?<!right )\bnow\b"
    "|改用|改为|改成|改回|换成|換成|换了|換了|换回|換回|又"
    "|迁移|遷移|搬到|搬去|不再|戒了|离开|離開|离职|離職|结婚|結婚|离婚|離婚|退休|现在|現在"
)
# `from MySQL to Postgres`: what was left is named.
FROM_TO = re.compile(
    r"\bfrom (?P<was>[\w.+#-]+(?: [\w.+#-]+)?) (?:over )?to\b|(?:从|從)(?P<cjk>.+?)(?:换|換|改|迁|遷|搬)"
)
CJK_OPPOSITES = _words("深浅 开关 大小 左右 早晚 高低 快慢 新旧 长短 多少 内外 前后 公私 明暗 真假")
# Verbs of change and use: sharing one of them does not make two memories speak of the same thing.
LIGHT = _words(
    "use change switch move migrate like prefer want get make go start stop have 我 用 户 现 在 是 了 的 又 已 经 每 天"
)
# With one of these a sentence no longer says that the thing is so.
INTENTIONS = _words(
    """want wants wanted plan plans planned planning hope hopes hoped try tries tried trying intend intends might may
    could would should if unless until almost nearly think thinks believe believes consider considers considering
    refuse refuses refused forget forgot fail failed cancel cancelled canceled stop stopped quit pretend pretends
    former formerly previously used wish wishes maybe perhaps probably possibly before after against except"""
)

# -- likes and dislikes
LIKE = "likes? loves? enjoys? prefers? adores? favou?rs? appreciates?"
DISLIKE = "dislikes? hates? loathes? detests? avoids?"
# Before `like` these make it another word: `looks like`, `would like`.
NO_LIKING = _words(
    """is are was were be am who that look looks looked sound sounds sounded feel feels felt
    seem seems seemed would should could"""
)

# Names of one kind of thing that is liked; that a word beside them is the same says they are meant of one thing.
LIKED_KINDS = (
    "book novel guide manual literature story biography memoir textbook fiction",
    "film movie comedy drama thriller documentary series show",
    "music song piece standard fusion album tune rock metal",
    "trip tour travel journey vacation exploration retreat excursion",
    "exhibition exhibit museum gallery",
    "class course workshop lesson training",
    "dish meal food cuisine recipe",
    "exercise workout sport activity",
)

# -- attributes whose value is the thing itself, one at a time: a second value is a change, not an addition
SINGLE = _words(
    """phone number email address birthday birthdate age name nickname surname username handle manager owner
    maintainer author lead leader ceo cto president director spouse wife husband partner landlord editor ide shell
    theme font timezone zone locale currency hometown capital nationality gender pronoun height weight size salary
    income budget price cost fee rate limit quota threshold timeout interval frequency deadline due date time day
    schedule version release port host hostname url endpoint domain target default license format encoding indent
    indentation width length database framework provider registry employer job title role position occupation
    major degree status priority plan tier password pin passphrase token account balance total count level score
    rank color colour favorite favourite diet 电 话 邮 箱 址 名 字 号 码 密 版 本 期 限"""
)
# Keys whose values add up: a second one is merged, not swapped.
SEVERAL = _words(
    """preference convention skill hobby interest like dislike allergy tag rule lesson learning fact requirement
    friend pet language tool habit decision setting goal plan task idea wish"""
)
# Say of a memory what sort it is, and nothing about the world.
GENERIC = _words(
    """preference convention project note info information thing stuff detail setting rule fact memory data misc
    various several general important new old my our different some other many multiple topic item context
    remember"""
)
# Before a colon these say what sort of entry it is, and are nothing that has a value.
LABELS = _words("bug error issue note todo warning 错误 錯誤 问题 問題 缺陷 注意 备注 備註 待办 待辦 提醒")
# Values where a capital is another value.
CASED = _words("password pin passphrase token key id code path url hash secret")
# A number after one of these names the thing, it is no value of it.
NUMBERED = _words(
    """ticket build issue version error pr line page step chapter room bug task test day week phase run case item part
    section order invoice server host node release sprint episode season question fact note record row entry customer
    user client tenant account patient device sensor node shard worker replica instance camera experiment trial sample
    batch"""
)
# What something does, or does not, under one version of another thing; it may do the same under the next.
BEHAVES = _words(
    """crash crashes crashed fail fails failed break breaks broken hang hangs freeze freezes leak leaks work works
    worked pass passes passed bug bugs issue error errors regression supported tested compiles builds"""
)
# Keys of a JSON object whose value says which thing it is about.
IDENTITY = _words("id uuid key name title service host hostname user username email slug path url component package")
LANGUAGES = _words(
    """english german french spanish chinese mandarin cantonese japanese korean italian portuguese russian arabic
    hindi dutch swedish polish turkish vietnamese thai greek hebrew ukrainian"""
)
# Kinds of thing one works with one of at a time, by their best known names.
KINDS = {
    "editor": "vscode|vs code|visual studio code|neovim|nvim|vim|emacs|sublime(?: text)?|intellij|pycharm|zed|helix",
    "shell": "bash|zsh|fish|powershell|nushell",
    "database": "postgres|postgresql|mysql|mariadb|sqlite|mongodb|oracle|duckdb|sql server",
}
# Kinds of which one may work with several: only who says that something is used now has changed.
RIVALS = {
    "browser": "chrome|google chrome|chromium|firefox|safari|edge|microsoft edge|brave|opera|vivaldi|arc",
    "package manager": "npm|pnpm|yarn|bun",
    "dependency manager": "pip|poetry|pipenv|pdm|uv|conda",
    "chat": "slack|teams|microsoft teams|discord|mattermost|zulip|signal|telegram|whatsapp|微信|钉钉|飞书",
    "linter": "ruff|flake8|pylint|eslint|biome",
    "notebook": "notion|obsidian|evernote|logseq|onenote",
    "test runner": "pytest|nose|unittest|jest|vitest|mocha",
    "ci": "jenkins|github actions|gitlab ci|circleci|travis|teamcity|buildkite|drone|azure pipelines",
    "code host": "github(?! actions)|gitlab(?! ci)|bitbucket|gitea|codeberg|gitee",
    "frontend": "angular|react|vue|svelte|ember|jquery|next.js|nuxt",
    "cloud": "aws|gcp|google cloud|azure(?! pipelines)|digitalocean|hetzner|heroku|阿里云|腾讯云|华为云",
    "tracker": "jira|linear|trello|asana|youtrack|redmine",
    "password manager": "lastpass|1password|bitwarden|keepass|dashlane",
    "monitoring": "sentry|rollbar|glitchtip|bugsnag|datadog|new relic|grafana",
    "docs": "sphinx|mkdocs|docusaurus|hugo|jekyll|confluence",
    "formatter": "black|ruff|prettier|yapf",
    "system": "ubuntu|debian|fedora|arch linux|linux|windows|macos",
    "phone": "pixel|iphone|galaxy|华为|小米",
    "commute": "train|bus|tram|subway|bike|car|地铁|公交",
}
# What is said of the kind is said of each member: where there is no person, there is no man.
KINDS_OF_THINGS = """
    person: man woman child baby boy girl someone somebody anyone anybody policeman policewoman player rider biker
        cyclist runner swimmer surfer skater skier driver worker cook chef singer dancer musician teacher student
        soldier climber hiker hunter fisherman athlete actor artist customer colleague friend neighbour
        brother sister mother father husband wife son daughter uncle aunt cousin grandmother grandfather
        jogger snowboarder skateboarder bicyclist motorcyclist boxer wrestler goalkeeper guitarist pianist drummer
        painter photographer waiter waitress farmer cowboy nurse doctor firefighter clown gymnast cheerleader
        passenger pedestrian lawyer engineer
    child: boy girl baby toddler infant teenager son daughter
    man: father husband brother son uncle grandfather policeman fisherman businessman king
    woman: mother wife sister daughter aunt grandmother policewoman businesswoman queen
    animal: dog cat horse bird fish cow sheep goat pig rabbit mouse rat monkey lion tiger bear panda elephant rhino
        giraffe zebra deer squirrel hamster turtle snake frog duck chicken hen parrot kangaroo lemur puppy kitten
        insect bee whale dolphin shark wolf fox camel donkey
    pet: dog cat hamster parrot rabbit goldfish
    bird: duck chicken hen parrot eagle owl pigeon penguin swan goose crow sparrow dove seagull
    vehicle: car truck lorry bus van taxi sedan tractor motorcycle bicycle scooter train tram boat ship
        jeep
    car: sedan taxi jeep
    boat: ship canoe kayak yacht ferry raft
    food: pizza bread meat cheese rice pasta noodle soup salad egg sandwich burger cake cookie fruit vegetable potato
        carrot onion tomato pepper banana apple orange fish chicken steak bacon beef pork cereal corn
    meat: chicken steak bacon beef pork ham lamb turkey sausage
    fruit: apple banana orange pear grape lemon melon peach cherry strawberry mango
    vegetable: potato carrot onion tomato pepper cucumber broccoli cabbage lettuce garlic bean pea spinach leek okra
    seafood: fish shrimp prawn crab lobster oyster squid mussel salmon tuna
    fish: salmon tuna trout cod herring
    dairy: milk cheese yogurt butter cream
    nut: peanut almond walnut hazelnut cashew
    drink: water coffee tea juice milk beer wine soda lemonade cocoa
    alcohol: beer wine whisky whiskey vodka rum gin cocktail champagne liquor
    instrument: guitar piano violin flute drum trumpet cello harp saxophone keyboard clarinet harmonica
    furniture: table chair sofa bed desk bench cupboard shelf wardrobe
    clothes: shirt dress coat jacket trousers jeans skirt hat cap shoe sock glove scarf sweater suit uniform
    sport: football soccer basketball baseball tennis cricket rugby golf hockey volleyball swimming skiing
    weapon: gun pistol rifle knife sword bow
    gun: pistol rifle revolver shotgun
    flower: rose tulip lily daisy sunflower
    plant: tree flower bush grass
    tool: hammer saw drill screwdriver wrench axe
    building: house church tower school hospital barn castle temple
"""
CJK_KINDS = """
    宠物=猫|(?<!热)狗|兔|仓鼠|鹦鹉|金鱼|乌龟 寵物=貓|(?<!熱)狗|兔|倉鼠|鸚鵡|金魚|烏龜
    海鲜=虾|蟹|鱼(?!香)|扇贝|牡蛎 海鮮=蝦|蟹|魚(?!香)|扇貝|牡蠣 酒=香槟|香檳|威士忌|伏特加 肉=火腿|培根|香肠|香腸
    水果=苹果|蘋果|香蕉|橙|梨|葡萄|西瓜|草莓|芒果 奶制品=牛奶|奶酪|酸奶|黄油 坚果=花生|杏仁|核桃|腰果
    乐器=钢琴|吉他|小提琴|长笛|小号|大提琴|二胡 樂器=鋼琴|吉他|小提琴|長笛|小號|大提琴|二胡
"""
# A denial does not tell these apart: who mows no lawn mows no grass. Too loose to call two memories the same.
NEAR_GROUPS = """
    lawn grass field meadow; beach shore coast seaside; pan skillet frypan; cup mug; bag sack backpack; path trail track
    hurdle barrier obstacle fence; street road roadway highway lane avenue; ship boat; gun pistol; hill slope mountain
    hit strike whack spank punch slap smack; throw toss hurl fling; leap jump hop bounce; run sprint jog race dash
    walk stroll wander march stride pace wade; cut slice chop dice carve trim; peel pare; mix stir blend whisk
    grab catch seize; hold carry grip clutch; put place lay set; pour spill; sprinkle scatter; smear spread
    guard defend protect; brush comb groom; feed nourish; float drift; clean wash rinse scrub wipe; break smash shatter
    fit fix attach fasten; perform play strum; talk speak chat converse lecture; shout yell scream; look watch stare
    view observe gaze; follow chase pursue; stack pile; swim dive; crawl creep slide; climb scale ascend; splash spray
    squirt; drive ride travel steer; eat munch gnaw chew devour nibble; drink sip gulp; sleep nap rest doze; cook
    prepare fry boil grill roast; operate use run; take part participate compete; smile grin laugh; weep cry sob
    stuffed toy; group crowd bunch team; game match; crowd audience; picture photo image; paper sheet
    rock stone boulder; basketball ball; bunny rabbit; kid child; block slab; jersey shirt uniform; empty vacant
    silent quiet mute; wear dress
"""
# Before `of` these measure, and mean what follows: `a piece of bread`, `a group of people`.
MEASURES = _words(
    "piece bit slice group bunch couple pair number lot set kind sort type part bowl cup glass crowd team"
)

# -- when, where and for what something holds

# The day of an event. Of a change it says when the new value began, not when it holds.
DATE = re.compile(
    r"""[\s,]*\b(?:in|on|since|last|this|back\sin)\s(?:early\s|late\s|mid-?)?
        (?:(?:january|february|march|april|may|june|july|august|september|october|november|december)(?:\s(?:19|20)\d\d)?
        |(?:19|20)\d\d|week|month|year|spring|summer|autumn|fall|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b
    |[\s,]*\b(?:yesterday|today|recently)\b|[\s,]*\b(?:\d+|an?|two|three|few)\s(?:day|week|month|year)s?\sago\b""",
    re.VERBOSE | re.IGNORECASE,
)
SITUATION = re.compile(
    r"""\b(?:in|at|during|every|each|on)\s(?:the\s)?(?:early\s|late\s)?
        (?:mornings?|afternoons?|evenings?|nights?|noon|midnight|weekends?|weekdays?|spring|summer|autumn|fall|winter)\b
    |\b(?:on|every|each|last|next|by)\s(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b
    |\b(?:in|last|next|every|since)\s(?:january|february|march|april|june|july|august|september|october|november|december|may)\b
    |\b(?:in|since|during|until)\s(?:19|20)\d\d\b|\b(?:yesterday|tomorrow|tonight|(?<!as\sof\s)today)\b
    |\bthis\s(?:morning|afternoon|evening|week|weekend|month|year)\b
    |\bat\s(?:the\s)?(?:work|home|school|office|university|gym|night)\b
    |\b(?:in|on|for|within)\s(?:the\s|my\s|our\s|all\s)?[\w.+#-]+\s
        (?:projects?|repos?|repositor(?:y|ies)|codebases?|teams?|branch(?:es)?|environments?|files?|code|scripts?|apps?|services?)\b
    |\b(?:in|on|for)\s(?:prod(?:uction)?|staging|dev(?:elopment)?|testing|ci|python|go|rust|java|javascript|typescript)\b
    |\b(?:before|after)\s(?:the\s)?\w+
    |\bproject\s[\w.-]+|\bwhen\s[\w ]{3,30}|\bwhile\s(?:travell?ing|working|driving|coding|at\s\w+)
    |(?:早上|上午|中午|下午|晚上)(?!\d|[一二三四五六七八九十两]+[点點])|周末|在家|工作时|上班时""",
    re.VERBOSE,
)

LANGUAGES = frozenset({
    "arabic", "bengali", "bulgarian", "catalan", "chinese", "croatian", "czech", "danish", "dutch", "english",
    "estonian", "finnish", "french", "german", "greek", "hebrew", "hindi", "hungarian", "icelandic", "indonesian",
    "italian", "japanese", "korean", "latin", "latvian", "lithuanian", "malay", "mandarin", "norwegian", "persian",
    "polish", "portuguese", "punjabi", "romanian", "russian", "serbian", "slovak", "slovene", "spanish", "swahili",
    "swedish", "tamil", "thai", "turkish", "ukrainian", "urdu", "vietnamese", "welsh",
})  # fmt: skip

ACTS = frozenset({  # verbs that often stand before what a sentence is about
    "be", "have", "do", "use", "prefer", "like", "love", "enjoy", "hate", "dislike", "want", "need", "write", "read",
    "run", "live", "deploy", "build", "ship", "keep", "make", "take", "go", "come", "get", "give", "say",
    "tell", "know", "think", "call", "drive", "own", "play", "study", "teach", "eat", "drink", "pay",
})  # fmt: skip
