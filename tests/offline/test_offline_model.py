"""What the model decides, as a function of the request alone."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dshmem.offline.model import Reply, reply_to
from pytest_dshmem.offline.recall import NOTHING_KNOWN

SESSION = """<session date="4:05 pm on 15 March, 2024">
Ines: Hi Otto! How are you?
Otto: Great, thanks! I bought a red canoe yesterday for 300 euros.
Ines: Wow, lovely! My sister Ada moved to Porto last year.
Otto: I want to row down the Loire with Ada in June.
</session>"""
INGESTION = f"Keep what may be useful.\n\n{SESSION}"
EDIT = {
    "type": "object",
    "properties": {
        "scope": {"type": "string", "enum": ["global", "workspace"]},
        "name": {"type": "string"},
        "description": {"type": "string"},
        "content": {"type": "string"},
        "mode": {"type": "string", "enum": ["append", "replace"]},
        "expected_revision": {"type": "string"},
    },
    "required": ["scope", "content", "mode"],
}
READ = {"name": "read", "input_schema": {"properties": {"file_path": {"type": "string"}}}}
UPDATE = {"name": "memory_update", "input_schema": EDIT}
COMMIT = {
    "name": "memory_commit",
    "input_schema": {"properties": {"edits": {"type": "array", "items": EDIT}}},
}


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def request(*messages: dict[str, Any], tools: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"messages": list(messages), "tools": list(tools)}


def after(reply: Reply, *results: str, refused: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The messages that follow a reply: itself, and the results of its tools, one for each or one for all."""
    told = results * len(reply.tool_uses) if len(results) == 1 else results
    calls = [
        {"type": "tool_use", "id": f"{number}{use.arguments}", "name": use.name, "input": use.arguments}
        for number, use in enumerate(reply.tool_uses)
    ]
    answers = [
        {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": [{"type": "text", "text": text}],
            "is_error": refused,
        }
        for call, text in zip(calls, told, strict=True)
    ]
    return {"role": "assistant", "content": calls}, {"role": "user", "content": answers}


def memory(index: str = "", of_all: str = "", folder: str = "/box/memory/ws") -> str:
    return (
        f"Current runtime context.\n\n<global_memory>\n{of_all}\n</global_memory>\n\n"
        f'<workspace_memory dir="{folder}">\n{index}\n</workspace_memory>'
    )


def question(text: str) -> str:
    return f"Answer from memory.\n\nCurrent date: 15 March, 2024\nQuestion: {text}"


class TestIngestion:
    def test_a_session_becomes_a_note_of_its_own_and_a_line_of_global_memory(self) -> None:
        reply = reply_to(request(user(INGESTION, memory()), tools=(READ, UPDATE)))

        assert [use.name for use in reply.tool_uses] == ["memory_update", "memory_update"]
        note, of_all = (use.arguments for use in reply.tool_uses)
        assert note["scope"] == "workspace"
        assert note["name"].startswith("2024-03-15-")
        assert "canoe" in note["description"]
        assert "Otto: I bought a red canoe yesterday [14 March 2024] for 300 euros." in note["content"]
        assert "How are you" not in note["content"]
        assert of_all.keys() == {"scope", "content", "mode"}
        assert of_all["scope"] == "global"

    def test_it_ends_in_words_once_that_is_saved(self) -> None:
        start = user(INGESTION, memory())
        reply = reply_to(request(start, tools=(READ, UPDATE)))
        last = reply_to(request(start, *after(reply, "Saved."), tools=(READ, UPDATE)))
        assert last.text
        assert not last.tool_uses

    def test_a_refused_note_is_tried_once_more_under_another_name_and_then_given_up(self) -> None:
        messages = [user(INGESTION, memory())]
        names = []
        for _ in range(5):
            reply = reply_to(request(*messages, tools=(READ, UPDATE)))
            if not reply.tool_uses:
                break
            names.append(reply.tool_uses[0].arguments["name"])
            messages += after(reply, "that name is taken", refused=True)
        assert len(names) == len(set(names)) == 2
        assert reply.text

    def test_notes_that_memory_holds_already_are_replaced_by_their_revision(self) -> None:
        first = reply_to(request(user(INGESTION, memory()), tools=(UPDATE,)))
        name = first.tool_uses[0].arguments["name"]
        index = f"- [{name}]({name}.md) (rev 0123abcd): canoes"
        again = reply_to(request(user(INGESTION, memory(index)), tools=(UPDATE,))).tool_uses[0].arguments
        assert (again["mode"], again["expected_revision"]) == ("replace", "0123abcd")

    def test_a_long_global_memory_is_left_alone(self) -> None:
        reply = reply_to(request(user(INGESTION, memory(of_all="x" * 9_000)), tools=(UPDATE,)))
        assert [use.arguments["scope"] for use in reply.tool_uses] == ["workspace"]

    def test_tools_of_another_memory_system_are_filled_by_their_fields(self) -> None:
        tool = {
            "name": "remember",
            "input_schema": {
                "properties": {"file": {}, "text": {}, "kind": {"enum": ["fact", "plan"]}, "tags": {}},
                "required": ["text", "kind"],
            },
        }
        arguments = reply_to(request(user(INGESTION), tools=(READ, tool))).tool_uses[0].arguments
        assert arguments.keys() == {"file", "text", "kind"}
        assert arguments["file"].endswith(".md")
        assert arguments["kind"] == "fact"

    def test_an_empty_session_and_a_missing_tool_end_in_words(self) -> None:
        empty = '<session date="1 May, 2024">\n</session>'
        for reply in (reply_to(request(user(empty), tools=(UPDATE,))), reply_to(request(user(INGESTION)))):
            assert reply.text
            assert not reply.tool_uses


class TestConsolidation:
    def task(self, details: str = "", said: str = SESSION) -> str:
        return (
            f"<memory>\n<global_memory>\n</global_memory>\n{details}\n</memory>\n"
            f'<finished_session recorded_on="2025-01-01">\n<message from="user">\n{said}\n</message>\n'
            '<message from="assistant">\nDone.\n</message>\n</finished_session>'
        )

    def edits(self, task: str) -> list[dict[str, Any]]:
        (use,) = reply_to(request(user(task), tools=(COMMIT,))).tool_uses
        assert use.name == "memory_commit"
        found: list[dict[str, Any]] = use.arguments["edits"]
        return found

    def with_details(self, edits: list[dict[str, Any]]) -> str:
        return "\n".join(
            f'<detail name="{edit["name"]}" revision="1">\n{edit["description"]}\n\n'
            f"{edit['content']}\n</detail>"
            for edit in edits
        )

    def test_each_person_gets_a_file_and_a_session_without_notes_gets_them(self) -> None:
        edits = {edit["name"]: edit for edit in self.edits(self.task())}
        assert len(edits) == 3
        assert {"ines", "otto"} < edits.keys()
        assert "red canoe yesterday [14 March 2024]" in edits["otto"]["content"]
        assert "Porto" not in edits["otto"]["content"]
        assert edits["otto"]["mode"] == "append"

    def test_nothing_new_is_an_empty_proposal(self) -> None:
        details = self.with_details(self.edits(self.task()))
        assert self.edits(self.task(details)) == []

    def test_replayed_turns_are_consolidated_by_their_own_words(self) -> None:
        edits = {edit["name"]: edit for edit in self.edits(self.task(said="I keep two bees' hives in Lyon."))}
        assert "(1 January 2025) user: I keep two bees' hives in Lyon." in edits["user"]["content"]
        assert "assistant" not in edits

    def test_a_reminder_does_not_change_the_task_and_a_refusal_empties_the_proposal(self) -> None:
        start = user(self.task())
        first = reply_to(request(start, tools=(COMMIT,)))
        words = {"role": "assistant", "content": [{"type": "text", "text": "Hm."}]}
        assert reply_to(request(start, words, user("Call it now."), tools=(COMMIT,))) == first
        second = reply_to(request(start, *after(first, "refused", refused=True), tools=(COMMIT,)))
        assert second.tool_uses[0].arguments == {"edits": []}


class TestQuestions:
    INDEX = (
        "- [2024-03-15-aa](2024-03-15-aa.md) (rev 1): canoe, river\n"
        "- [2024-04-01-bb](2024-04-01-bb.md) (rev 2): bread, oven\n"
        "- [otto](otto.md) (rev 3): facts about Otto: rye"
    )
    NOTE = (
        "1: ---\n2: description: canoe\n3: ---\n4: \n"
        "5: - (15 March 2024) Otto: I bought a canoe yesterday [14 March 2024].\n"
    )

    def test_notes_that_fit_are_opened_in_one_step_those_of_named_persons_first(self) -> None:
        asked = user(question("When did Otto buy the canoe?"), memory(self.INDEX))
        reply = reply_to(request(asked, tools=(READ,)))
        assert [(use.name, use.arguments["file_path"]) for use in reply.tool_uses] == [
            ("read", "/box/memory/ws/otto.md"),
            ("read", "/box/memory/ws/2024-03-15-aa.md"),
        ]

    def test_a_month_that_is_named_leads_to_the_notes_of_that_month(self) -> None:
        asked = user(question("What happened in April?"), memory(self.INDEX))
        (use,) = reply_to(request(asked, tools=(READ,))).tool_uses
        assert use.arguments["file_path"].endswith("2024-04-01-bb.md")

    def test_a_when_question_is_answered_with_the_date_that_was_meant(self) -> None:
        asked = user(question("When did Otto buy the canoe?"), memory(self.INDEX))
        reply = reply_to(request(asked, tools=(READ,)))
        last = reply_to(request(asked, *after(reply, self.NOTE), tools=(READ,)))
        assert last.text.startswith("14 March 2024 (")
        assert not last.tool_uses

    def test_refused_reads_leave_what_the_context_holds(self) -> None:
        known = "- (2 May 2024) Otto: My canoe is called Heron."
        asked = user(question("What is Otto's canoe called?"), memory(self.INDEX, known))
        reply = reply_to(request(asked, tools=(READ,)))
        last = reply_to(request(asked, *after(reply, "outside of the memory", refused=True), tools=(READ,)))
        assert last.text == "My canoe is called Heron."

    def test_a_history_is_answered_from_at_once(self) -> None:
        told = f"<history>\n{SESSION}\n</history>\n\nCurrent date: 15 March, 2024\nQuestion: "
        reply = reply_to(request(user(told + "Where did Ada move?"), tools=(READ,)))
        assert "Porto" in reply.text
        assert reply_to(request(user(told + "Who won the chess cup?"))).text == NOTHING_KNOWN

    def test_a_label_within_a_history_is_not_the_question(self) -> None:
        session = SESSION.replace("</session>", "Question: the canoe?\n</session>")
        told = f"<history>\n{session}\n</history>\n\nQuestion: Where did Ada move?"
        assert "Porto" in reply_to(request(user(told))).text

    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("Is Otto tall?", "Probably yes."),
            ("Would he take tea or coffee?", "Perhaps take tea."),
            ("Where does Ada live?", NOTHING_KNOWN),
        ],
    )
    def test_without_memory_it_guesses_from_the_question(self, text: str, answer: str) -> None:
        assert reply_to(request(user(question(text)))).text == answer

    def test_a_yes_or_no_question_gets_one(self) -> None:
        known = "- (2 May 2024) Otto: I never eat meat.\n- (2 May 2024) Otto: I love rowing boats."
        for text, start in (("Does Otto eat meat?", "No: "), ("Does Otto love rowing?", "Yes: ")):
            assert reply_to(request(user(question(text), memory(of_all=known)))).text.startswith(start)


def test_it_thinks_only_if_asked_to() -> None:
    asked = request(user(question("Where?")))
    assert reply_to(asked).thought is None
    assert reply_to({**asked, "thinking": {"type": "disabled"}}).thought is None
    assert reply_to({**asked, "thinking": {"type": "enabled"}}).thought


def test_replies_do_not_depend_on_the_process() -> None:
    """Python orders sets differently in each process: no reply may follow that order."""
    asked = json.dumps(request(user(INGESTION, memory()), tools=(READ, UPDATE)))
    program = (
        "import json, sys; from pytest_dshmem.offline.model import reply_to; "
        "print(reply_to(json.load(sys.stdin)))"
    )
    replies = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=asked,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(replies) == 1
    assert "canoe" in replies.pop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image"])},
    optional={
        "text": st.text(),
        "id": JSON,
        "name": JSON,
        "input": JSON,
        "tool_use_id": JSON,
        "content": JSON,
    },
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"])},
    optional={"content": st.text() | st.lists(BLOCK | JSON, max_size=4) | JSON},
)
TOOL = st.fixed_dictionaries({}, optional={"name": JSON, "input_schema": JSON})


@given(st.lists(MESSAGE, max_size=4), st.lists(TOOL, max_size=3))
def test_any_request_gets_a_reply(messages: list[Any], tools: list[Any]) -> None:
    reply = reply_to({"messages": messages, "tools": tools})
    assert reply.text or reply.tool_uses
