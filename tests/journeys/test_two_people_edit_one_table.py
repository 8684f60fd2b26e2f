"""Two people edit one table: rows and cells of both are kept, and the one cell that both changed is settled alone."""

from __future__ import annotations

from pathlib import Path

import memlake as ml

TABLE = "id,name,price,stock\n1,tea,2.50,10\n2,coffee,4.00,5\n3,milk,1.20,8\n"


def commit(repo: ml.Repo, text: str, message: str) -> None:
    (repo.root / "shop.csv").write_text(text)
    repo.add(repo.root / "shop.csv")
    repo.commit(message)


def test_a_cell_that_both_changed_is_settled_and_all_else_of_both_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "shop.csv"
    with ml.init(tmp_path) as repo:
        commit(repo, TABLE, "the shop")
        repo.branches.create("grace")

        # Ada raises a price, sells some tea, and adds a row.
        commit(repo, TABLE.replace("4.00,5", "4.50,5").replace("2.50,10", "2.50,7") + "4,sugar,0.90,3\n", "ada")

        # Grace raises the same price otherwise, counts the milk, and adds a row of her own.
        repo.switch("grace")
        commit(repo, TABLE.replace("4.00,5", "5.00,5").replace("1.20,8", "1.20,6") + "5,salt,0.50,9\n", "grace")
        repo.switch("main")

        merge = repo.merge("grace")
        assert [(one.place, one.base, one.ours, one.theirs) for one in merge.places()] == [
            ("id=2: price", "4.00", "4.50", "5.00")
        ]
        assert table.read_text() == (  # ours at that cell, and everything else of both
            "id,name,price,stock\n1,tea,2.50,7\n2,coffee,4.50,5\n3,milk,1.20,6\n4,sugar,0.90,3\n5,salt,0.50,9\n"
        )

        assert merge.resolve("theirs", table, where="id = 2 and column = price") == ()
        merge.conclude("Merge grace")
        assert "2,coffee,5.00,5\n" in table.read_text() and repo.status().clean

        # The next time the same two meet, the answer is known.
        repo.reset("HEAD~1", "hard")
        again = repo.merge("grace")
        assert again.recalled == (("files/shop.csv", "id=2: price"),)
        repo.pending_merge.conclude("Merge grace again")
        assert "2,coffee,5.00,5\n" in table.read_text()

        repo.undo()  # the conclusion, what was recalled, and the merge itself
        repo.undo()
        repo.undo()
        assert "2,coffee,4.50,5\n" in table.read_text() and "salt" not in table.read_text()


def test_values_of_a_column_that_the_other_removed_are_said_to_be_left_out(tmp_path: Path) -> None:
    with ml.init(tmp_path) as repo:
        commit(repo, TABLE, "the shop")
        repo.branches.create("grace")
        commit(repo, "id,name,price\n1,tea,2.50\n2,coffee,4.00\n3,milk,1.20\n", "ada does not count any more")
        repo.switch("grace")
        commit(repo, TABLE + "5,salt,0.50,9\n", "grace")
        repo.switch("main")
        merge = repo.merge("grace")
        assert (tmp_path / "shop.csv").read_text().endswith("3,milk,1.20\n5,salt,0.50\n")
        assert merge.notes == ("shop.csv: 1 added row came without 'stock', because the other side removed it",)
