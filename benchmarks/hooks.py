"""How good hooks are at telling and keeping, scored on written sessions of which the right answers were fixed before.

    python benchmarks/hooks.py                                   # the sessions of benchmarks/sessions, and the loop
    python benchmarks/hooks.py benchmarks/sessions/shop.json     # one file
    python benchmarks/hooks.py --check FILE ...                  # only look for mistakes in files
    python benchmarks/hooks.py --show misses                     # and what was told, kept and missed wrongly

`sessions/README.md` says how the sessions are labelled and what each figure counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import hooks_driver as driver
from hooks_driver import Ended, Memory, Played, Told
from hooks_sessions import FOLDER, LOOP, RULES, Project, check, fold, list_kept, list_turns, matches, read, says

Figures = dict[str, float]
ENOUGH = 2 / 3  # of the expected words, for a question to count as answered
SUMMARY = "summary"  # the memory_type by which the summary of a session is known
EPISODE = "episode"  # what an agent said: it may have the words of a rule and is none
ROWS = {  # figure -> how it is shown, and its target
    "relevant among told": ("{:.1%}", ">= 85 %"),
    "- of it at the start": ("{:.1%}", ""),
    "- of it at prompts": ("{:.1%}", ""),
    "told at prompts": ("{:.0f}", ""),
    "relevant that was told": ("{:.1%}", ""),
    "out of date among told": ("{:.1%}", ""),
    "repeats among told": ("{:.1%}", "0"),
    "from another project": ("{:.0f}", "0"),
    "rules kept": ("{:.1%}", ">= 90 %"),
    "- in whatever memory": ("{:.1%}", ""),
    "memories kept": ("{:.0f}", ""),
    "junk among kept": ("{:.1%}", "<= 5 %"),
    "- of it restatements": ("{:.0f}", "0"),
    "sessions with a summary": ("{:.1%}", ""),
    "words of the summaries": ("{:.1%}", ""),
    "where did we stop, answered": ("{:.1%}", ">= 90 %"),
    "- words of the answers": ("{:.1%}", ""),
    "secrets kept or told": ("{:.0f}", "0"),
    "tokens at the start, mean": ("{:.0f}", ""),
    "tokens at the start, most": ("{:.0f}", "<= 800"),
    "tokens at a prompt, mean": ("{:.0f}", ""),
}


class Scorer:
    """Holds one play against the labels of its projects. `misses` says in words what was counted against it."""

    def __init__(self, projects: Sequence[Project], played: Played) -> None:
        self.projects = {project["project"]: project for project in projects}
        self.played, self.misses = played, list[str]()
        self._sessions = {
            (name, session["id"]): session for name, project in self.projects.items() for session in project["sessions"]
        }
        self._kept = {name: list(list_kept(project)) for name, project in self.projects.items()}

    def score(self) -> Figures:
        figures = self._score_told() | self._score_kept() | self._score_answers() | self._score_tokens()
        return figures | {"secrets kept or told": self._count_secrets()}

    # -- told

    def _score_told(self) -> Figures:
        good, all_told, known = {0: 0, 1: 0}, {0: 0, 1: 0}, set[tuple[str, str, str]]()
        stale = repeats = crossed = 0
        for told in self.played.told:
            part, wanted = min(told.turn, 1), self._list_wanted(told)
            gone = self._list_replaced(told)
            if not told.memories:  # text that names no memory is of no use that a label could show
                all_told[part] += 1
                self._miss(told, "names no memory", told.text)
            for memory in told.memories:
                labels = self.find_labels(told.project, memory)
                all_told[part] += 1
                good[part] += bool(labels & wanted)
                if not labels & wanted:
                    self._miss(told, "is not relevant", memory["content"])
                stale += bool(labels & gone) and not labels - gone
                crossed += self._find_origin(memory) not in ("", told.project)
                key = (told.project, told.session, memory["memory_id"])
                repeats += key in known
                known.add(key)
        return {
            "relevant among told": _share(sum(good.values()), sum(all_told.values())),
            "- of it at the start": _share(good[0], all_told[0]),
            "- of it at prompts": _share(good[1], all_told[1]),
            "told at prompts": all_told[1],
            "relevant that was told": self._find_recall(),
            "out of date among told": _share(stale, sum(all_told.values())),
            "repeats among told": _share(repeats, sum(all_told.values())),
            "from another project": crossed,
        }

    def _find_recall(self) -> float:
        """Of what a prompt wants, the share that the session was told by then: at its start or at any prompt."""
        wanted = told = 0
        for (name, key), session in self._sessions.items():
            known, events = set[str](), [one for one in self.played.told if (one.project, one.session) == (name, key)]
            for number, turn in enumerate(list_turns(session), 1):
                for event in (one for one in events if one.turn == number or (number == 1 and one.turn == 0)):
                    for memory in event.memories:
                        known |= self.find_labels(name, memory)
                wanted += len(turn.get("relevant", ()))
                told += len(known & set(turn.get("relevant", ())))
        return _share(told, wanted)

    def _list_wanted(self, told: Told) -> set[str]:
        session = self._sessions[told.project, told.session]
        return set(session["start"] if told.turn == 0 else list_turns(session)[told.turn - 1].get("relevant", ()))

    def _list_replaced(self, told: Told) -> set[str]:
        """What earlier sessions of the project said is no longer so."""
        before = set[str]()
        for session in self.projects[told.project]["sessions"]:
            if session["id"] == told.session:
                break
            before.add(session["id"])
        return {item["replaces"] for key, item in self._kept[told.project] if "replaces" in item and key in before}

    def find_labels(self, project: str, memory: Memory) -> set[str]:
        """Everything of a project that a memory is: one of `before`, kept items, the summary of a session."""
        if memory["memory_type"] == SUMMARY:
            return {
                session["id"]
                for session in self.projects[project]["sessions"]
                if memory["session_id"] == driver.session_key(project, session["id"])
            }
        plain = fold(memory["content"])
        seeded = {
            label
            for owner, label, content in self.played.seeded.values()
            if owner in ("", project) and fold(content) in plain
        }
        return seeded | {item["id"] for _, item in self._kept[project] if matches(memory["content"], item)}

    def _find_origin(self, memory: Memory) -> str:
        """The project whose session, or whose `before`, a memory is from; empty for what is the person's."""
        if memory["memory_id"] in self.played.seeded:
            return self.played.seeded[memory["memory_id"]][0]
        return next((name for name in self.projects if memory["session_id"].startswith(f"{name}-")), "")

    # -- kept

    def _score_kept(self) -> Figures:
        """A memory is good when it is a summary, the first of its session, or the oldest that is some item."""
        all_kept, good, restated = dict[str, str](), set[str](), set[str]()
        rules, said, sessions = set[tuple[str, str]](), set[tuple[str, str]](), set[tuple[str, str]]()
        words = list[bool]()
        for ended in self.played.ended:
            new = [one for one in ended.memories if self.is_new(one) and self._find_origin(one) == ended.project]
            all_kept |= {one["memory_id"]: one["content"] for one in new}
            facts = [one for one in new if one["memory_type"] != SUMMARY]
            for _, item in self._kept[ended.project]:
                same = [one for one in facts if matches(one["content"], item)]
                good |= {one["memory_id"] for one in same[:1]}
                restated |= {one["memory_id"] for one in same[1:]}
                if item["kind"] in RULES:
                    said |= {(ended.project, item["id"]) for _ in same}
                    rules |= {(ended.project, item["id"]) for one in same if one["memory_type"] != EPISODE}
            restated |= {one["memory_id"] for one in facts if self._restates_seeded(ended.project, one)}
            if mine := self._find_summary(ended):
                sessions.add((ended.project, ended.session))
                good.add(mine["memory_id"])
            expected = self._sessions[ended.project, ended.session]["summary"]
            text = mine["content"] if mine else ""
            words += [there for part in ("asked", "done", "open") for there in says(text, expected[part])]
        junk = {one: text for one, text in all_kept.items() if one not in good}
        self.misses += [f"kept, and junk: {_short(text)}" for text in junk.values()]
        stated = [(name, item) for name in self.projects for _, item in self._kept[name] if item["kind"] in RULES]
        self.misses += [
            f"{name}: {item['id']} is not kept: {item['must']}"
            for name, item in stated
            if (name, item["id"]) not in rules
        ]
        return {
            "rules kept": _share(len(rules), len(stated)),
            "- in whatever memory": _share(len(said), len(stated)),
            "memories kept": len(all_kept),
            "junk among kept": _share(len(junk), len(all_kept)),
            "- of it restatements": len(restated - good),
            "sessions with a summary": _share(len(sessions), len(self.played.ended)),
            "words of the summaries": _share(sum(words), len(words)),
        }

    def is_new(self, memory: Memory) -> bool:
        seeded = self.played.seeded.get(memory["memory_id"])
        return seeded is None or fold(seeded[2]) != fold(memory["content"])

    def _restates_seeded(self, project: str, memory: Memory) -> bool:
        """Whether it says once more what there was before; in other words, where those are labelled."""
        labelled = [
            one for one in self.projects[project]["before"] if "must" in one and matches(memory["content"], one)
        ]
        plain, new = fold(memory["content"]), memory["memory_id"] not in self.played.seeded
        contained = any(fold(one[2]) in plain for one in self.played.seeded.values() if one[0] in ("", project))
        return new and (contained or bool(labelled))

    def _find_summary(self, ended: Ended) -> Memory | None:
        key = driver.session_key(ended.project, ended.session)
        mine = (one for one in ended.memories if one["memory_type"] == SUMMARY and one["session_id"] == key)
        return next(mine, None)

    # -- the rest

    def _score_answers(self) -> Figures:
        shares = list[list[bool]]()
        for (name, key), session in self._sessions.items():
            for number, turn in enumerate(list_turns(session), 1):
                if "answer" in turn:
                    told = [one for one in self.played.told if (one.project, one.session) == (name, key)]
                    text = "\n".join(one.text for one in told if one.turn in (0, number))
                    shares.append(says(text, turn["answer"]))
                    if statistics.fmean(shares[-1]) < ENOUGH:
                        self.misses.append(f"{name} {key}: not answered: {turn['user']} ({turn['answer']})")
        answered = sum(statistics.fmean(share) >= ENOUGH for share in shares)
        every = [one for share in shares for one in share]
        return {
            "where did we stop, answered": _share(answered, len(shares)),
            "- words of the answers": _share(sum(every), len(every)),
        }

    def _score_tokens(self) -> Figures:
        starts = [len(one.text) / 4 for one in self.played.told if one.turn == 0]
        prompts = [len(one.text) / 4 for one in self.played.told if one.turn > 0]
        turns = sum(len(list_turns(session)) for session in self._sessions.values())
        return {
            "tokens at the start, mean": sum(starts) / max(len(self._sessions), 1),
            "tokens at the start, most": max(starts, default=0),
            "tokens at a prompt, mean": sum(prompts) / max(turns, 1),
        }

    def _count_secrets(self) -> int:
        texts = {one["content"] for ended in self.played.ended for one in ended.memories} | {
            one.text for one in self.played.told
        }
        secrets = {
            word for session in self._sessions.values() for turn in session["turns"] for word in turn.get("secrets", ())
        }
        found = [word for word in secrets if any(word in text for text in texts)]
        self.misses += [f"a secret is in what is kept or told: {word}" for word in found]
        return len(found)

    def _miss(self, told: Told, why: str, text: str) -> None:
        self.misses.append(f"{told.project} {told.session} turn {told.turn}: told, and {why}: {_short(text)}")


def score_loop(project: Project, played: Played) -> dict[str, float]:
    """What a question that is asked again and again leaves: it must not grow, and nothing may be there twice."""
    scorer = Scorer([project], played)
    figures = scorer.score()
    new = [[one for one in ended.memories if scorer.is_new(one)] for ended in played.ended]
    half, end = new[len(new) // 2], new[-1]
    return {
        "turns": sum(len(list_turns(session)) for session in project["sessions"]),
        "memories kept": len(end),
        "- of them summaries": sum(one["memory_type"] == SUMMARY for one in end),
        "restatements kept": figures["- of it restatements"],
        "repeats among told": figures["repeats among told"],
        "characters kept by the middle": sum(len(one["content"]) for one in half),
        "characters kept at the end": sum(len(one["content"]) for one in end),
        "longest memory, characters": max((len(one["content"]) for one in end), default=0),
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 100 else f"{plain[:100]}…"


def _show(figure: str, value: float) -> str:
    return ROWS[figure][0].format(value)


def _print_table(scores: dict[str, Figures]) -> None:
    print("| figure | " + " | ".join(scores) + " | target |\n|---|" + "---|" * (len(scores) + 1))
    for figure, (_, target) in ROWS.items():
        print(f"| {figure} | " + " | ".join(_show(figure, one[figure]) for one in scores.values()) + f" | {target} |")


def _print_loop(scores: dict[str, dict[str, float]]) -> None:
    print("\n| the loop | " + " | ".join(scores) + " |\n|---|" + "---|" * len(scores))
    for figure in next(iter(scores.values())):
        print(
            f"| {figure} | "
            + " | ".join(f"{one[figure]:.3g}" if one[figure] < 1 else f"{one[figure]:.0f}" for one in scores.values())
            + " |"
        )


def _print_costs(scores: dict[str, dict[str, float]]) -> None:
    print("\n| CPU of a hook | " + " | ".join(scores) + " |\n|---|" + "---|" * len(scores))
    for event in next(iter(scores.values())):
        print(f"| {event} | " + " | ".join(f"{1e3 * one[event]:.0f} ms" for one in scores.values()) + " |")


def _list_mistakes(projects: Sequence[Project], person: Sequence[Memory]) -> Iterator[str]:
    for project in projects:
        yield from check(project, person)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("files", nargs="*", type=Path, help="files of sessions (default: all of benchmarks/sessions)")
    asked.add_argument("--case", choices=driver.CASES, action="append", help="where memories are kept (default: both)")
    asked.add_argument("--check", action="store_true", help="only look for mistakes in the files")
    asked.add_argument("--show", choices=["misses"], help="also print what was counted against the hooks")
    asked.add_argument("--rounds", type=int, default=5, help="of the CPU of each hook (0: leave it out)")
    asked.add_argument("--work", type=Path, help="folder to play in, emptied first (default: a temporary one)")
    options = asked.parse_args()
    person, projects = read(options.files or sorted(FOLDER.glob("*.json")))
    if mistakes := list(_list_mistakes(projects, person)):
        print("\n".join(mistakes), file=sys.stderr)
        return 1
    kept = [
        len(session["turns"]) for project in projects if project["project"] != LOOP for session in project["sessions"]
    ]
    print(f"{len(projects)} projects, {len(kept)} sessions, {sum(kept)} turns, the loop not counted\n")
    if not options.check:
        with tempfile.TemporaryDirectory() as folder:
            _play_all(projects, person, (options.work or Path(folder)).resolve(), options)
    return 0


def _play_all(projects: Sequence[Project], person: Sequence[Memory], work: Path, options: argparse.Namespace) -> None:
    scores, loops, costs, misses = dict[str, Figures](), dict[str, Figures](), dict[str, Figures](), list[str]()
    normal, loop = (
        [one for one in projects if one["project"] != LOOP],
        [one for one in projects if one["project"] == LOOP],
    )
    for case in options.case or driver.CASES:
        for some, name in ((normal, case), (loop, f"{case}-loop")):
            if not some:
                continue
            folder = driver.clear(work / name)
            with driver.own_home(folder):
                played = driver.play(some, person, case, folder)
                if some is loop:
                    loops[case] = score_loop(loop[0], played)
                else:
                    scorer = Scorer(normal, played)
                    scores[case] = scorer.score()
                    misses += [f"{case}: {one}" for one in (*scorer.misses, *played.troubles)]
                    if options.rounds:
                        costs[case] = driver.time_hooks(normal[-1], folder, options.rounds)
    if scores:
        _print_table(scores)
    if loops:
        _print_loop(loops)
    if costs:
        _print_costs(costs)
    if options.show:
        print("\n" + "\n".join(misses))


if __name__ == "__main__":
    sys.exit(main())
