"""How text, reasoning, calls and citations of chunks become items; `chat_notes` explains the notation."""

from __future__ import annotations

from typing import Any

import pytest

from projector.providers.openai_chat.stage import OpenAIChatStage
from tests.unit.chat_notes import DONE, ID, Cases, call, chunk, feed, says, usage_chunk

TEXT: Cases = {
    "a whole message beside an empty delta, after the ID": (
        [chunk({"role": "assistant"}), {"id": ID, "choices": [{"delta": {}, "message": {"content": "a"}}]}, DONE],
        "0 + message | 0 text a | 0 - message completed | completed",
    ),
    **{
        f"a whole message beside the delta {delta}": (
            [{"choices": [{"delta": delta, "message": {"content": "a"}, "finish_reason": "stop"}]}],
            "0 + message | 0 text a | 0 - message completed | completed",
        )
        for delta in (None, {}, {"role": "assistant", "content": ""})
    },
    "texts of the older API, and a copy of the delta's": (
        [
            {"id": ID, "choices": [{"text": "a", "finish_reason": None}]},
            {"id": ID, "choices": [{"text": "x", "delta": {"content": "b"}}]},
            {"id": ID, "choices": [{"text": "c", "finish_reason": "stop"}]},
        ],
        "0 + message | 0 text a | 0 text b | 0 text c | 0 - message completed | completed",
    ),
    "a text of the older API that is held back, and the whole completion": (
        [*({"id": ID, "choices": [one]} for one in ({"text": "<"}, {"message": {"content": "<"}})), chunk({}, "stop")],
        "0 + message | 0 text < | 0 - message completed | completed",
    ),
    "text, usage, end mark": (
        [chunk({"role": "assistant", "content": ""}), chunk({"content": "Hi"}), chunk({}, "stop"), usage_chunk(), DONE],
        "0 + message | 0 text Hi | 0 - message completed | completed",
    ),
    "nothing but the end": ([chunk({}, "stop"), DONE], "completed"),
    "blanks wait for the first visible character": (
        [chunk({"content": "\n"}), chunk({"content": " "}), chunk({"content": "Hi"}), chunk({}, "stop")],
        "0 + message | 0 text \n Hi | 0 - message completed | completed",
    ),
    "blanks after it do not": (
        [chunk({"content": "Hi"}), chunk({"content": " "}), chunk({}, "stop")],
        "0 + message | 0 text Hi | 0 text   | 0 - message completed | completed",
    ),
    "blanks alone are said at the end": (
        [chunk({"content": "\n"}), chunk({}, "stop")],
        "0 + message | 0 text \n | 0 - message completed | completed",
    ),
    "a list of parts and plain texts": (
        [chunk({"content": [{"type": "text", "text": "a"}, "b", {"type": "refusal", "refusal": "No."}]}, "stop")],
        ("0 + message | 0 text a | 0 text b | 0 refusal No. | 0 refusal= No. | 0 - message completed | completed"),
    ),
    "a refusal; empty ones open nothing": (
        [
            chunk({"refusal": ""}),
            chunk({"refusal": None, "content": ""}),
            chunk({"refusal": "No"}),
            chunk({"refusal": "."}, "stop"),
        ],
        "0 + message | 0 refusal No | 0 refusal . | 0 refusal= No. | 0 - message completed | completed",
    ),
    "text parts in other spellings": (
        [
            chunk({"content": [{"type": "output_text", "text": "a"}, {"text": "b"}]}),
            chunk({"content": [{"text": "why", "thought": True}, {"text": "why", "thinking": "x"}]}),
            chunk({"content": {"text": "c"}}),
            chunk({"content": {"type": "text", "text": "d"}}, "stop"),
        ],
        "0 + message | 0 text a | 0 text b | 0 text c | 0 text d | 0 - message completed | completed",
    ),
    "blanks before a refusal come with the text after it": (
        [chunk({"content": "\n"}), chunk({"refusal": "No"}), chunk({"content": " "}, "stop")],
        "0 + message | 0 refusal No | 0 text \n  | 0 refusal= No | 0 - message completed | completed",
    ),
    "a whole completion in one chunk": (
        [{"id": ID, "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}],
        "0 + message | 0 text Hi | 0 - message completed | completed",
    ),
    "a cumulative message beside the delta": (
        [
            {"id": ID, "choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]},
            {"id": ID, "choices": [{"message": {"content": "ab"}}]},
            {"id": ID, "choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}, "finish_reason": "stop"}]},
        ],
        "0 + message | 0 text a | 0 text b | 0 - message completed | completed",
    ),
    "only the first choice": (
        [
            {"id": ID, "choices": [{"index": 1, "delta": {"content": "x"}}, {"index": 0, "delta": {"content": "a"}}]},
            {"id": ID, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
            {"id": ID, "choices": [{"index": 1, "delta": {"content": "y"}, "finish_reason": "stop"}]},
        ],
        "0 + message | 0 text a | 0 - message incomplete | incomplete length",
    ),
    "choices that are none": ([chunk(), {"choices": None}, {"choices": [1]}, chunk({}, "stop")], "completed"),
}


REASONING: Cases = {
    "before the text, with a done between": (
        [
            chunk({"reasoning_content": "Hm"}),
            chunk({"reasoning_content": "."}),
            chunk({"content": "Hi"}),
            chunk({}, "stop"),
        ],
        (
            "0 + reasoning | 0 thought Hm | 0 thought . | 0 thought= Hm. | 0 - reasoning completed | "
            "1 + message | 1 text Hi | 1 - message completed | completed"
        ),
    ),
    "with the text in one chunk": (
        [chunk({"content": "Hi", "reasoning": "Hm"}, "stop")],
        (
            "0 + reasoning | 0 thought Hm | 0 thought= Hm | 0 - reasoning completed | 1 + message | "
            "1 text Hi | 1 - message completed | completed"
        ),
    ),
    "blank text first does not come before it": (
        [chunk({"content": "\n"}), chunk({"reasoning": "Hm"}), chunk({"content": "Hi"}, "stop")],
        (
            "0 + reasoning | 0 thought Hm | 0 thought= Hm | 0 - reasoning completed | 1 + message | "
            "1 text \nHi | 1 - message completed | completed"
        ),
    ),
    "empty reasoning is none": (
        [
            chunk({"reasoning_content": "", "reasoning": None, "content": "Hi"}),
            chunk({"reasoning_content": ""}, "stop"),
        ],
        "0 + message | 0 text Hi | 0 - message completed | completed",
    ),
    "blank reasoning is none": (
        [chunk({"reasoning": "\n"}), chunk({"reasoning": " ", "content": "Hi"}, "stop")],
        "0 + message | 0 text Hi | 0 - message completed | completed",
    ),
    "blank summaries wait too": (
        [chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": text}]}) for text in ("\n", "s")],
        "0 + reasoning | 0 summary \ns",
    ),
    "blanks belong to the reasoning that follows": (
        [chunk({"reasoning": "\n"}), chunk({"reasoning": "Hm"}, "stop")],
        "0 + reasoning | 0 thought \nHm | 0 thought= \nHm | 0 - reasoning completed | completed",
    ),
    "the first spelling wins": (
        [
            chunk({"reasoning": "a"}),
            chunk({"reasoning": "b", "reasoning_content": "b"}),
            chunk({"reasoning_content": "c"}, "stop"),
        ],
        ("0 + reasoning | 0 thought a | 0 thought b | 0 thought= ab | 0 - reasoning completed | completed"),
    ),
    "a summary that another member repeats is a summary": (
        [
            chunk(
                {
                    "reasoning": text,
                    "reasoning_content": text,
                    "reasoning_details": [{"type": "reasoning.summary", "summary": text}],
                }
            )
            for text in ("a", "b")
        ]
        + [chunk({}, "stop")],
        "0 + reasoning | 0 summary a | 0 summary b | 0 summary= ab | 0 - reasoning completed | completed",
    ),
    "a summary beside other reasoning": (
        [
            chunk({"reasoning": "long", "reasoning_details": [{"type": "reasoning.summary", "summary": "s"}]}),
            chunk({"reasoning": "er", "reasoning_details": [{"type": "reasoning.text", "text": "er"}]}, "stop"),
        ],
        (
            "0 + reasoning | 0 thought long | 0 summary s | 0 thought er | 0 summary= s | 0 thought= longer | "
            "0 - reasoning completed | completed"
        ),
    ),
    "a member that repeats a summary and a text": (
        [
            chunk(
                {
                    "reasoning": "st",
                    "reasoning_details": [
                        {"type": "reasoning.summary", "summary": "s"},
                        {"type": "reasoning.text", "text": "t"},
                    ],
                },
                "stop",
            ),
        ],
        (
            "0 + reasoning | 0 summary s | 0 thought t | 0 summary= s | 0 thought= t | "
            "0 - reasoning completed | completed"
        ),
    ),
    "a text after a summary that was repeated": (
        [
            chunk({"reasoning": "s", "reasoning_details": [{"type": "reasoning.summary", "summary": "s"}]}),
            chunk({"reasoning_content": "t", "reasoning_details": [{"type": "reasoning.text", "text": "t"}]}, "stop"),
        ],
        (
            "0 + reasoning | 0 summary s | 0 thought t | 0 summary= s | 0 thought= t | "
            "0 - reasoning completed | completed"
        ),
    ),
    "details only for what the others lack": (
        [
            chunk({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]}),
            chunk(
                {
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": "b"},
                        {"type": "reasoning.encrypted", "data": "x"},
                    ]
                },
                "stop",
            ),
        ],
        "0 + reasoning | 0 thought a | 0 thought= a | 0 - reasoning completed | completed",
    ),
    "details alone": (
        [
            chunk(
                {
                    "reasoning_details": [
                        {"type": "reasoning.summary", "summary": "s"},
                        {"type": "reasoning.text", "text": "t"},
                    ]
                }
            ),
            chunk({"content": "Hi"}, "stop"),
        ],
        (
            "0 + reasoning | 0 summary s | 0 thought t | 0 summary= s | 0 thought= t | "
            "0 - reasoning completed | 1 + message | 1 text Hi | 1 - message completed | completed"
        ),
    ),
    "encrypted alone, and another blob": (
        [chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": data}]}) for data in ("x", "x", "y")]
        + [chunk({}, "stop")],
        "0 + reasoning | 0 - reasoning completed | 1 + reasoning | 1 - reasoning completed | completed",
    ),
    "thinking parts between texts": (
        [
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}),
            chunk({"content": "a"}),
            chunk({"content": [{"type": "thinking", "thinking": "So"}, {"type": "text", "text": "b"}]}, "stop"),
        ],
        (
            "0 + reasoning | 0 thought Hm | 0 thought= Hm | 0 - reasoning completed | 1 + message | "
            "1 text a | 2 + reasoning | 2 thought So | 2 thought= So | 2 - reasoning completed | 1 text b | "
            "1 - message completed | completed"
        ),
    ),
    "tags, cut anywhere": (
        [chunk({"content": "<thi"}), chunk({"content": "nk>Hm</th"}), chunk({"content": "ink>\nHi"}, "stop")],
        (
            "0 + reasoning | 0 thought Hm | 0 thought= Hm | 0 - reasoning completed | 1 + message | "
            "1 text \nHi | 1 - message completed | completed"
        ),
    ),
    "an empty block between tags": (
        [chunk({"content": "<think>\n\n</think>\n\nHi"}, "stop")],
        "0 + message | 0 text \n\nHi | 0 - message completed | completed",
    ),
    "an unclosed block": (
        [chunk({"content": "<think>Hm</"}, "stop")],
        ("0 + reasoning | 0 thought Hm | 0 thought </ | 0 thought= Hm</ | 0 - reasoning completed | completed"),
    ),
    "cut off while it reasons": (
        [chunk({"reasoning": "Hm"}), chunk({}, "length")],
        "0 + reasoning | 0 thought Hm | 0 thought= Hm | 0 - reasoning incomplete | incomplete length",
    ),
    "before a call, and again before another": (
        [
            chunk({"reasoning": "a"}),
            chunk(call("f", "{}", index=0, id="c1")),
            chunk({"reasoning": "b", **call("g", "{}", index=1, id="c2")}, "tool_calls"),
        ],
        (
            "0 + reasoning | 0 thought a | 0 thought= a | 0 - reasoning completed | 1 + function_call f | "
            "2 + reasoning | 2 thought b | 2 thought= b | 2 - reasoning completed | 3 + function_call g | "
            "1 args {} | 1 args= {} | 1 - function_call completed | 3 args {} | 3 args= {} | "
            "3 - function_call completed | completed"
        ),
    ),
}


CALLS: Cases = {
    "streamed, later fragments blank": (
        [
            chunk(call("f", "", index=0, id="c1", type="function")),
            chunk(call("", "{", index=0, id="", type="")),
            chunk(call(None, None, index=0, id=None, type=None)),
            chunk(call(None, "}", index=0)),
            chunk({"tool_calls": None}, "tool_calls"),
        ],
        ("0 + function_call f | 0 args { | 0 args } | 0 args= {} | 0 - function_call completed | completed"),
    ),
    "the index starts at 1": (
        [chunk(call("f", "{", index=1, id="c1")), chunk(call(None, "}", index=1), "tool_calls")],
        ("0 + function_call f | 0 args { | 0 args } | 0 args= {} | 0 - function_call completed | completed"),
    ),
    "interleaved by index": (
        [
            chunk(
                {
                    "tool_calls": [
                        *call("f", "{", index=0, id="c1")["tool_calls"],
                        *call("g", "[", index=1, id="c2")["tool_calls"],
                    ]
                }
            ),
            chunk(call(None, "}", index=0)),
            chunk(call(None, "]", index=1), "tool_calls"),
        ],
        (
            "0 + function_call f | 0 args { | 1 + function_call g | 1 args [ | 0 args } | 1 args ] | "
            "0 args= {} | 0 - function_call completed | 1 args= [] | 1 - function_call completed | completed"
        ),
    ),
    "a new id on a used index is a new call; the old id goes on": (
        [
            chunk(call("f", "{", index=0, id="c1"), "tool_calls"),
            chunk(call("g", "[", index=0, id="c2"), "tool_calls"),
            chunk(call(None, "]", index=0)),
            chunk(call(None, "}", index=0, id="c1"), "tool_calls"),
        ],
        (
            "0 + function_call f | 0 args { | 1 + function_call g | 1 args [ | 1 args ] | 0 args } | "
            "0 args= {} | 0 - function_call completed | 1 args= [] | 1 - function_call completed | completed"
        ),
    ),
    **{
        f"interleaved by an index as {kind.__name__}": (
            [
                chunk(call("f", "{", index=kind(0), id="c1")),
                chunk(call("g", "[", index=kind(1), id="c2")),
                chunk(call(None, "}", index=kind(0))),
                chunk(call(None, "]", index=kind(1)), "tool_calls"),
            ],
            (
                "0 + function_call f | 0 args { | 1 + function_call g | 1 args [ | 0 args } | 1 args ] | "
                "0 args= {} | 0 - function_call completed | 1 args= [] | 1 - function_call completed | completed"
            ),
        )
        for kind in (str, float)
    },
    "a new id with each fragment": (
        [
            chunk(call("f", "{", index=0, id="c1")),
            chunk(call(None, '"a":1', index=0, id="c2")),
            chunk(call(None, "}", index=0, id="c3"), "tool_calls"),
        ],
        (
            '0 + function_call f | 0 args { | 0 args "a":1 | 0 args } | 0 args= {"a":1} | '
            "0 - function_call completed | completed"
        ),
    ),
    "no index, two ids": (
        [
            chunk({"tool_calls": [*call("f", "{}", id="c1")["tool_calls"], *call("g", "[", id="c2")["tool_calls"]]}),
            chunk(call(None, "]"), "tool_calls"),
        ],
        (
            "0 + function_call f | 1 + function_call g | 1 args [ | 1 args ] | 0 args {} | 0 args= {} | "
            "0 - function_call completed | 1 args= [] | 1 - function_call completed | completed"
        ),
    ),
    "no index, no id, another name": (
        [chunk(call("f", "{")), chunk(call("f", "}")), chunk(call("g", "[]"), "stop")],
        (
            "0 + function_call f | 0 args { | 0 args } | 1 + function_call g | 1 args [] | 0 args= {} | "
            "0 - function_call completed | 1 args= [] | 1 - function_call completed | completed"
        ),
    ),
    "the id comes late": (
        [chunk(call("f", "{", index=0)), chunk(call(None, "}", index=0, id="c1"), "tool_calls")],
        ("0 + function_call f | 0 args { | 0 args } | 0 args= {} | 0 - function_call completed | completed"),
    ),
    "two named calls on one index, only the second with an id": (
        [chunk(call("f", "{}", index=0)), chunk(call("g", "[]", index=0, id="c2"), "tool_calls")],
        (
            "0 + function_call f | 1 + function_call g | 1 args [] | 0 args {} | 0 args= {} | "
            "0 - function_call completed | 1 args= [] | 1 - function_call completed | completed"
        ),
    ),
    "two calls of a chunk on one index, without ids": (
        [
            chunk(
                {"tool_calls": [call("f", text, index=0)["tool_calls"][0] for text in ('{"a":1}', '{"a":2}')]},
                "tool_calls",
            )
        ],
        (
            '0 + function_call f | 1 + function_call f | 0 args {"a":1} | 0 args= {"a":1} | '
            '0 - function_call completed | 1 args {"a":2} | 1 args= {"a":2} | 1 - function_call completed | completed'
        ),
    ),
    "the name comes late": (
        [chunk(call(None, "{", index=0, id="c1")), chunk(call("f", "}", index=0), "tool_calls")],
        "0 + function_call f | 0 args {} | 0 args= {} | 0 - function_call completed | completed",
    ),
    "the name never comes": (
        [chunk(call(None, "{}", index=0, id="c1"), "tool_calls")],
        "0 + function_call  | 0 args {} | 0 args= {} | 0 - function_call completed | completed",
    ),
    "the name comes again": (
        [chunk(call("f", "{", index=0, id="c1")), chunk(call("f", "}", index=0, id="c1"), "tool_calls")],
        ("0 + function_call f | 0 args { | 0 args } | 0 args= {} | 0 - function_call completed | completed"),
    ),
    "a fragment with nothing at all": ([chunk({"tool_calls": [{"index": 0}]}, "tool_calls")], "completed"),
    "arguments as an object": (
        [chunk(call("f", {"a": 1}, index=0, id="c1"), "tool_calls")],
        ('0 + function_call f | 0 args {"a":1} | 0 args= {"a":1} | 0 - function_call completed | completed'),
    ),
    "no arguments": (
        [chunk(call("f", "", index=0, id="c1"), "tool_calls")],
        "0 + function_call f | 0 args=  | 0 - function_call completed | completed",
    ),
    "the old function_call": (
        [
            chunk({"function_call": {"name": "f", "arguments": "{"}}),
            chunk({"function_call": {"arguments": "}"}}, "function_call"),
        ],
        ("0 + function_call f | 0 args { | 0 args } | 0 args= {} | 0 - function_call completed | completed"),
    ),
    "a custom tool": (
        [
            chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "custom", "custom": {"name": "f", "input": "a"}}]}),
            chunk({"tool_calls": [{"index": 0, "custom": {"input": "b"}}]}, "tool_calls"),
        ],
        ("0 + custom_tool_call f | 0 input a | 0 input b | 0 input= ab | 0 - custom_tool_call completed | completed"),
    ),
    "text before, between and after": (
        [
            chunk({"content": "a"}),
            chunk(call("f", "{}", index=0, id="c1")),
            chunk({"content": "b"}),
            chunk(call("g", "[]", index=1, id="c2")),
            chunk({"content": "c"}, "tool_calls"),
        ],
        (
            "0 + message | 0 text a | 1 + function_call f | 0 text b | 2 + function_call g | 2 args [] | "
            "0 text c | 0 - message completed | 1 args {} | 1 args= {} | 1 - function_call completed | "
            "2 args= [] | 2 - function_call completed | completed"
        ),
    ),
    "a call that was cut off is left to the end": (
        [chunk({"content": "a"}), chunk(call("f", "{", index=0, id="c1")), chunk({}, "length")],
        ("0 + message | 0 text a | 1 + function_call f | 1 args { | 0 - message completed | incomplete length"),
    ),
}


NEWS = {"type": "url_citation", "start_index": 1, "end_index": 2, "url": "https://a.example", "title": "A"}


CITATIONS: Cases = {
    "nested and flat, once": (
        [
            chunk({"content": "Hi", "annotations": [{"type": "url_citation", "url_citation": NEWS}]}),
            chunk({"annotations": [NEWS, {"type": "file_citation", "file_citation": {"file_id": "f1"}}]}, "stop"),
        ],
        ("0 + message | 0 text Hi | 0 cites https://a.example | 0 cites f1 | 0 - message completed | completed"),
    ),
    "before the text": (
        [chunk({"annotations": [NEWS]}), chunk({"content": "Hi"}, "stop")],
        "0 + message | 0 text Hi | 0 cites https://a.example | 0 - message completed | completed",
    ),
    "without any text": ([chunk({"annotations": [NEWS]}, "stop")], "completed"),
    "lists of addresses and results, with every chunk": (
        [
            chunk(
                {"content": text},
                finish,
                citations=["https://a.example", "https://b.example", {"url": "https://c.example"}],
                search_results=[{"title": "B", "url": "https://b.example"}, {"title": "no address"}],
            )
            for text, finish in [("Hi", None), ("", "stop")]
        ],
        (
            "0 + message | 0 text Hi | 0 cites https://b.example | 0 cites https://a.example | "
            "0 cites https://c.example | 0 - message completed | completed"
        ),
    ),
}


FAMILIES: dict[str, Cases] = {
    "text": TEXT,
    "reasoning": REASONING,
    "calls": CALLS,
    "citations": CITATIONS,
}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [pytest.param(*case, id=f"{family}: {name}") for family, cases in FAMILIES.items() for name, case in cases.items()],
)
def test_chunks_become_events(sent: list[Any], expected: str) -> None:
    assert says(*sent) == expected


def test_events_in_full() -> None:
    sent = [
        chunk({"role": "assistant", "content": ""}, created=1765800000, model="gpt-x"),
        chunk({"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "e=="}]}),
        chunk({"content": "Hi", "annotations": [NEWS]}),
        chunk({"refusal": "No"}),
        chunk(call("f", '{"a":1}', index=0, id="call_1"), "tool_calls"),
        {"id": ID, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
        DONE,
    ]
    response = {"object": "response", "id": ID, "model": "gpt-x", "created_at": 1765800000}
    reasoning = {"type": "reasoning", "id": f"rs_{ID}_0", "summary": []}
    message = {"type": "message", "id": f"msg_{ID}_1", "role": "assistant"}
    function = {"type": "function_call", "id": f"fc_{ID}_2", "call_id": "call_1", "name": "f"}
    at_reasoning = {"item_id": f"rs_{ID}_0", "output_index": 0}
    at_message = {"item_id": f"msg_{ID}_1", "output_index": 1}
    at_call = {"item_id": f"fc_{ID}_2", "output_index": 2}
    content = [
        {"type": "output_text", "text": "Hi", "annotations": [NEWS]},
        {"type": "refusal", "refusal": "No"},
    ]
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    done = {"status": "completed"}
    opened = {"status": "in_progress"}
    expected: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, **opened, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**reasoning, **opened}},
        {"type": "response.reasoning_text.delta", **at_reasoning, "content_index": 0, "delta": "Hm"},
        {"type": "response.reasoning_text.done", **at_reasoning, "content_index": 0, "text": "Hm"},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                **reasoning,
                **done,
                "content": [{"type": "reasoning_text", "text": "Hm"}],
                "encrypted_content": "e==",
            },
        },
        {"type": "response.output_item.added", "output_index": 1, "item": {**message, **opened, "content": []}},
        {"type": "response.output_text.delta", **at_message, "content_index": 0, "delta": "Hi"},
        {
            "type": "response.output_text.annotation.added",
            **at_message,
            "content_index": 0,
            "annotation_index": 0,
            "annotation": NEWS,
        },
        {"type": "response.refusal.delta", **at_message, "content_index": 1, "delta": "No"},
        {"type": "response.output_item.added", "output_index": 2, "item": {**function, **opened, "arguments": ""}},
        {"type": "response.refusal.done", **at_message, "content_index": 1, "refusal": "No"},
        {"type": "response.output_item.done", "output_index": 1, "item": {**message, **done, "content": content}},
        {"type": "response.function_call_arguments.delta", **at_call, "delta": '{"a":1}'},
        {"type": "response.function_call_arguments.done", **at_call, "arguments": '{"a":1}'},
        {
            "type": "response.output_item.done",
            "output_index": 2,
            "item": {**function, **done, "arguments": '{"a":1}', "opaque": {"reasoning_content": None}},
        },
        {"type": "response.completed", "response": {**response, **done, "output": [], "usage": usage}},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(expected)]
    assert feed(OpenAIChatStage(), sent) == numbered


def test_an_empty_first_chunk_gets_its_id_later() -> None:
    shell = {"id": "", "model": "", "created": 0, "choices": [], "prompt_filter_results": []}
    events = feed(
        OpenAIChatStage(), [shell, shell, chunk({"content": "Hi"}, model="m"), chunk({"content": "x"}, id="other")]
    )
    begun = {"object": "response", "status": "in_progress", "output": []}
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0]["response"] == begun
    assert events[1]["response"] == {**begun, "id": ID, "model": "m"}
    assert {event["item_id"] for event in events if "item_id" in event} == {f"msg_{ID}_0"}


def test_items_have_ids_without_a_response_id() -> None:
    events = feed(OpenAIChatStage(), [{"id": "", "choices": [{"delta": {"content": "Hi"}}]}])
    assert events[1]["item"]["id"] == "msg_0"
