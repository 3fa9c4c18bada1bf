"""Where a value of a class begins and ends: separators, brackets, scopes, other scripts, and what resembles one."""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise
from random import Random
from typing import Final

import pytest

from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.rule_samples import CLASSES

EVERY: Final = Redactor(Policy.load({"text": {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}}))
MAIL, IP, SSN, CARD, IBAN, PHONE = (
    f"<redacted:{name}>" for name in ("email", "ip_address", "us_ssn", "payment_card", "iban", "phone")
)

FOUND: Final[tuple[tuple[str, str], ...]] = (
    # addresses of hosts: separators before them, brackets, ports, mapped and scoped forms
    ("ip:203.0.113.77 x", f"ip:{IP} x"),
    ("x-forwarded-for:203.0.113.77,198.51.100.2 x", f"x-forwarded-for:{IP},{IP} x"),
    (
        "X-Forwarded-For: 203.0.113.77, 198.51.100.2:80, [2001:db8::7]:443.",
        f"X-Forwarded-For: {IP}, {IP}:80, [{IP}]:443.",
    ),
    ('Forwarded: for="[2001:db8:cafe::17]:4711";by=203.0.113.43', f'Forwarded: for="[{IP}]:4711";by={IP}'),
    ("host-203.0.113.77 x", f"host-{IP} x"),
    ("client=203.0.113.77;", f"client={IP};"),
    ("root@203.0.113.77:22 x", f"root@{IP}:22 x"),
    ("10:30:00:203.0.113.77 x", f"10:30:00:{IP} x"),
    ("req.ip ::ffff:203.0.113.77 x", f"req.ip {IP} x"),
    ("ip:::ffff:203.0.113.77 x", f"ip:{IP} x"),
    ("::FFFF:203.0.113.77,::ffff:cb00:714d x", f"{IP},{IP} x"),
    ("::ffff:0:203.0.113.77 and 64:ff9b::203.0.113.77 x", f"{IP} and {IP} x"),
    ("[::ffff:c000:201]:80, 203.000.113.077 x", f"[{IP}]:80, {IP} x"),
    ("[::ffff:203.0.113.77]:80 x", f"[{IP}]:80 x"),
    ("0:0:0:0:0:ffff:203.0.113.77 x", f"{IP} x"),
    ("ip:2001:db8::8a2e:370:7334 x", f"ip:{IP} x"),
    ("addr-2001:db8::1 x", f"addr-{IP} x"),
    ("fe80::1%eth0 x", f"{IP} x"),
    ("fe80::1ff:fe23:4567:890a%25eth0 x", f"{IP} x"),
    ("http://[fe80::1%25en0]:8080/ x", f"http://[{IP}]:8080/ x"),
    ("fd00::1 and 2001:db8:1:2::/64 x", f"{IP} and {IP}/64 x"),
    ("2001:0db8:0000:0000:0000:8a2e:0370:7334 x", f"{IP} x"),
    ("203[.]0[.]113[.]77 and 203.0.113[.]77 x", f"{IP} and {IP} x"),
    ("ip-203-0-113-77.ec2.internal x", f"{IP}.ec2.internal x"),
    ("203.0.113.77. 203.0.113.78", f"{IP}. {IP}"),
    ("203.0.113.77-203.0.113.99 x", f"{IP}-{IP} x"),
    ("\uff12\uff10\uff13.0.113.77 x", f"{IP} x"),
    ("\u0662\u0660\u0663.0.113.77 x", f"{IP} x"),
    ("203\uff0e0\uff0e113\uff0e77 x", f"{IP} x"),
    ("example.com/203.0.113.77:8080 x", f"example.com/{IP}:8080 x"),
    ("(203.0.113.77) <203.0.113.77> {203.0.113.77} x", f"({IP}) <{IP}> {{{IP}}} x"),
    # social security and taxpayer numbers
    ("912-70-1234 x", f"{SSN} x"),
    ("ITIN 987-65-4320, ATIN 900-93-1234.", f"ITIN {SSN}, ATIN {SSN}."),
    ("999 88 0001 x", f"{SSN} x"),
    ("123.45.6789, 900.70.0001 x", f"{SSN}, {SSN} x"),
    ("123 - 45 - 6789 x", f"{SSN} x"),
    ("123\u201345\u20136789, 123\u201145\u20116789 x", f"{SSN}, {SSN} x"),
    ("\uff11\uff12\uff13-\uff14\uff15-\uff16\uff17\uff18\uff19 x", f"{SSN} x"),
    ("SSN:123-45-6789, ssn=123-45-6789, SSN-123-45-6789 x", f"SSN:{SSN}, ssn={SSN}, SSN-{SSN} x"),
    ("[123-45-6789](123-45-6789) x", f"[{SSN}]({SSN}) x"),
    # cards
    ("4111 - 1111 - 1111 - 1111 x", f"{CARD} x"),
    ("4111/1111/1111/1111 x", f"{CARD} x"),
    ("4111.1111.1111.1111 x", f"{CARD} x"),
    ("4111  1111  1111  1111 x", f"{CARD} x"),
    ("card:4111111111111111 x", f"card:{CARD} x"),
    ("card-4111111111111111 x", f"card-{CARD} x"),
    ("4111 1111 1111 1111 1227 123 x", f"{CARD} 1227 123 x"),
    ("4111 1111 1111 1111 5500 0000 0000 0004 x", f"{CARD} {CARD} x"),
    ("12 4111 1111 1111 1111 x", f"12 {CARD} x"),
    ("3056 930902 5904 and 3782-822463-10005 x", f"{CARD} and {CARD} x"),
    ("6304000000000000 and 4222222222222 x", f"{CARD} and {CARD} x"),
    ("411111 1111111111 x", f"{CARD} x"),
    ("41111111 11111111 x", f"{CARD} x"),
    ("\u0664\u0661\u0661\u0661 1111 1111 1111 x", f"{CARD} x"),
    ("4111  1111 1111 1111, 4111- 1111- 1111- 1111 x", f"{CARD}, {CARD} x"),
    # accounts
    ("DE89.3704.0044.0532.0130.00 x", f"{IBAN} x"),
    ("DE 89 3704 0044 0532 0130 00 x", f"{IBAN} x"),
    ("IBAN:DE89370400440532013000,BIC x", f"IBAN:{IBAN},BIC x"),
    ("DE89/3704/0044/0532/0130/00, IBANDE89370400440532013000 x", f"{IBAN}, IBAN{IBAN} x"),
    ("de89-3704-0044-0532-0130-00 x", f"{IBAN} x"),
    # telephone numbers
    ("415 - 555 - 2671 x", f"{PHONE} x"),
    ("001 415 555 2671 x", f"{PHONE} x"),
    ("415 555-2671 and (415)555.2671 x", f"{PHONE} and {PHONE} x"),
    ("+\u0664\u0669 171 1234567 x", f"{PHONE} x"),
    # mail addresses
    ("jane@\u4f8b\u3048.jp x", f"{MAIL} x"),
    ("jane@\u4f8b\u3048.\u30c6\u30b9\u30c8 x", f"{MAIL} x"),
    ("\u8acb\u806f\u7d61jane@\u4f8b\u5b50.com\uff0c\u8b1d\u8b1d", f"\u8acb\u806f\u7d61{MAIL}\uff0c\u8b1d\u8b1d"),
    ("\u8acb\u806f\u7d61jane@example.com\u8b1d\u8b1d\u60a8", f"\u8acb\u806f\u7d61{MAIL}\u8b1d\u8b1d\u60a8"),
    ("\u9023\u7d61\u5148jane@\u4f8b\u3048.jp\u3067\u3059", f"\u9023\u7d61\u5148{MAIL}\u3067\u3059"),
    ("\u7528\u6237@\u4f8b\u5b50.\u516c\u53f8 x", f"{MAIL} x"),
    ("jane@example\u3002com x", f"{MAIL} x"),
    ("jane@example.com\u3002See", f"{MAIL}\u3002See"),
    ("jane@\ud55c\uad6d.kr, jane@\u0645\u062b\u0627\u0644.\u0634\u0628\u0643\u0629 x", f"{MAIL}, {MAIL} x"),
    (
        "\u0938\u0902\u092a\u0930\u094d\u0915@\u0921\u093e\u091f\u093e\u092e\u0947\u0932.\u092d\u093e\u0930\u0924 x",
        f"{MAIL} x",
    ),
    ("jane@xn--r8jz45g.jp and jane@example.xn--p1ai x", f"{MAIL} and {MAIL} x"),
    ("jane.doe+news@example.com x", f"{MAIL} x"),
    ('"jane.doe"@example.com, "jane doe"@example.com, "a@b"@example.com x', f"{MAIL}, {MAIL}, {MAIL} x"),
    ("{jane, joe.doe}@example.com x", f"{MAIL} x"),
    ("jane@[203.0.113.77] and jane@[IPv6:2001:db8::1] x", f"{MAIL} and {MAIL} x"),
    ("_jane@example.com_ and **joe@example.com** x", f"{MAIL} and **{MAIL}** x"),
    ("jane@example.com_2024.csv x", f"{MAIL} x"),
    ("...jane@example.com, -joe@example.com x", f"...{MAIL}, -{MAIL} x"),
    ("jane@example.com1, JANE@EXAMPLE.COM-2 x", f"{MAIL}, {MAIL}-2 x"),
    ("jane@example.com-joe@example.org x", f"{MAIL}-{MAIL} x"),
    ("jane@163.com and jane@1.example.com, jane@3x.com x", f"{MAIL} and {MAIL}, {MAIL} x"),
    ("jane@example.com.html, jane@openssh.com x", f"{MAIL}.html, {MAIL} x"),
    ("<jane@example.com>, [jane@example.com](mailto:jane@example.com) x", f"<{MAIL}>, [{MAIL}](mailto:{MAIL}) x"),
    ("https://jane@example.com:8080/ x", f"https://{MAIL}:8080/ x"),
)

SHOWN: Final = """\
uses: actions/checkout@v4.2.0
owner/action@v4 and actions/cache@v4.2.0
npm i left-pad@1.2.3
a@1.2.3
pkg@1.0.0-alpha.beta x
icon@2x.png
icon@2x.min.png x
img/icon@3x.webp 3x
@scope/name@2.0.0
react@next
GB29.NWBK 6016-1331 9268 19
admin@prod.us-east-1 x
admin@dc.us1 x
x@latest
@app.route('/')
q@k.transpose(-2)
aes256-gcm@openssh.com,
com.example.Main@1b2c3d4f
std@0.200.0/x.ts
Thanks @jane.
{ "@context": "https://schema.org", "@id": 5 }
say "hello world" @ {a, b} @c.d
感谢@张三。今天
git@github.com:org/repo.git
openssl@3.0 and python@3.11
version 1.2.3.4
Version: 10.2.30.4
version = "1.2.3.4"
Version=4.0.0.0
v10.2.30.4
v.1.2.3.4
Chrome/120.0.6.109 Edg/120.0.0.5
pkg==1.2.3.4
pkg>=1.2.3.4, <=2.3.4.5
pkg-1.2.3.4.tar.gz
lib.so.1.2.3.4
firmware 1.2.3.4
release 1.2.3.4-beta
1.2.3.4.5
10.0.0.0/8
255.255.255.0
127.0.0.1:80
[::1]:80
f00d::cafe:1
a::b::c1
x[100::2]
00:1a:2b:3c:4d:5e
00:1a:2b:ff:fe:3c:4d:5e
12:30:45.123
::
43:51:43:a1:b5:fc:8b:b7:0a:3a:a9:b1:0f:66:73:a8
10:20:30:40:50:60:70:80
ip-10-0
ip-addresses-1.2
912-12-3456
900-49-0001
999-89-0001
000-12-3456
123-45-67890
123-45-6789-01
1123-45-6789
1.123.45.6789
123.45.6789.1
2024/12/3456
4512.3456 1234.5678
5105.105105105100
4111.11111111111
2001 2002 2003 2004 2005
4000 123 4567 12 999
M10 18a.75.75 0 001.06 1.06l7.5-7.5
a2 2 0 01-2.83 2.83-2 2 0 00-1.06
0 01-12.34 56.78 1
200.300 4000.123
M445 506C549 212-334 5678S1 2
0 0 24 24
matrix(1 0 0 1 212.5 334.25)
415.555 2671
ISBN 978-3-16-148410-0
550e8400-e29b-41d4-a716-446655440000
tile 12/2200/1343
17:30:00 +0530 12345
""".splitlines()


def clean(*deltas: str) -> str:
    """Return the joined clean deltas of one text."""
    stream = EVERY.message_stream()
    return "".join([*(stream.feed(delta).value for delta in deltas), stream.close().value])


@pytest.mark.parametrize(("text", "said"), FOUND, ids=[text for text, _ in FOUND])
def test_a_value_is_withheld_at_every_cut(text: str, said: str) -> None:
    assert clean(text) == said
    assert clean(*text) == said
    for at in range(1, len(text)):
        assert clean(text[:at], text[at:]) == said


@pytest.mark.parametrize("text", SHOWN)
def test_what_only_looks_like_a_value_is_shown(text: str) -> None:
    for whole in (text, f"It is {text}\n", f"({text}) x"):
        assert clean(whole) == whole
        assert clean(*whole) == whole


IBANS: Final = """
    AD1200012030200359100100 AE070331234567890123456 AL47212110090000000235698741 AT611904300234573201
    AZ21NABZ00000000137010001944 BA391290079401028494 BE68539007547034 BG80BNBG96611020345678 BH67BMAG00001299123456
    BI4210000100010000332045181 BR1800360305000010009795493C1 BY13NBRB3600900000002Z00AB00 CH9300762011623852957
    CR05015202001026284066 CY17002001280000001200527600 CZ6508000000192000145399 DE89370400440532013000
    DJ2100010000000154000100186 DK5000400440116243 DO28BAGR00000001212453611324 EE382200221020145685
    EG380019000500000000263180002 ES9121000418450200051332 FI2112345600000785 FK88SC123456789012 FO6264600001631634
    FR1420041010050500013M02606 GB29NWBK60161331926819 GE29NB0000000101904917 GI75NWBK000000007099453
    GL8964710001000206 GR1601101250000000012300695 GT82TRAJ01020000001210029690 HN88CABF00000000000250005469
    HR1210010051863000160 HU42117730161111101800000000 IE29AIBK93115212345678 IL620108000000099999999
    IQ98NBIQ850123456789012 IS140159260076545510730339 IT60X0542811101000000123456 JO94CBJO0010000000000131000302
    KW81CBKU0000000000001234560101 KZ86125KZT5004100100 LB62099900000001001901229114 LC55HEMM000100010012001200023015
    LI21088100002324013AA LT121000011101001000 LU280019400644750000 LV80BANK0000435195001 LY83002048000020100120361
    MC5811222000010123456789030 MD24AG000225100013104168 ME25505000012345678951 MK07250120000058984
    MN121234123456789123 MR1300020001010000123456753 MT84MALT011000012345MTLCAST001S MU17BOMM0101101030300200000MUR
    NI45BAPR00000013000003558124 NL91ABNA0417164300 NO9386011117947 OM810180000001299123456 PK36SCBL0000001123456702
    PL61109010140000071219812874 PS92PALS000000000400123456702 PT50000201231234567890154 QA58DOHB00001234567890ABCDEFG
    RO49AAAA1B31007593840000 RS35260005601001611379 RU0304452522540817810538091310419 SA0380000000608010167519
    SC18SSCB11010000000000001497USD SD8811123456789012 SE4550000000058398257466 SI56263300012039086
    SK3112000000198742637541 SM86U0322509800000000270100 SO211000001001000100141 ST23000100010051845310146
    SV62CENR00000000000000700025 TL380080012345678910157 TN5910006035183598478831 TR330006100519786457841326
    UA213223130000026007233566001 VA59001123000012345678 VG96VPVG0000012345678901 XK051212012345678906
    YE15CBYE0001018861234567891234
"""
"""An account of each country of the SWIFT IBAN registry, nearly all of them its examples."""


SEPARATORS: Final = (
    *("NO-BREAK SPACE", "EN QUAD", "FIGURE SPACE", "HAIR SPACE", "NARROW NO-BREAK SPACE", "MEDIUM MATHEMATICAL SPACE"),
    *("IDEOGRAPHIC SPACE", "HYPHEN", "NON-BREAKING HYPHEN", "FIGURE DASH", "EN DASH", "MINUS SIGN", "ONE DOT LEADER"),
)
SCRIPTS: Final = (
    *("ARABIC-INDIC", "EXTENDED ARABIC-INDIC", "NKO", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA"),
    *("TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER", "MONGOLIAN"),
    "FULLWIDTH",
)


@pytest.mark.parametrize("name", SEPARATORS)
def test_a_number_with_other_separators(name: str) -> None:
    number = unicodedata.lookup(name).join(["4111", "1111", "1111", "1111"])
    assert clean(f"pay {number} now") == f"pay {CARD} now"


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_number_in_digits_of_another_script(script: str) -> None:
    number = "".join(unicodedata.lookup(f"{script} {unicodedata.name(digit)}") for digit in "378282246310005")
    assert clean(f"pay {number} now") == f"pay {CARD} now"


@pytest.mark.parametrize("number", IBANS.split())
def test_an_account_of_each_country(number: str) -> None:
    assert clean(f"to {number}, to {number[:-1]}.") == f"to {IBAN}, to {number[:-1]}."
    cut_off = {clean(f"to {number[:count]}") for count in range(12, len(number))}
    assert cut_off <= {f"to {IBAN}", "to <redacted>"}  # which begins like the credential of a vendor


CARDS: Final = (
    ("4", (13, 16, 19)),
    ("51 55 2221 2720 5080 5089 6000 6089", (16,)),
    ("34 37", (15,)),
    ("6011 644 659", (16, 19)),
    ("62 81 3528 3589 2200 2204", (16, 17, 18, 19)),
    ("300 305 36 38 39", (14, 16)),
    ("5018 5020 5038 6304 6759 6763", (12, 13, 16, 18, 19)),
    ("33 35 50 56 63 643 66 80 82 306 2205 2220 2721 3527 3590 5017 5021 5037 5039 6303 6305 6758 6764", ()),
)
"""First digits of cards, the first and last of each range and those beside it, and how many digits they have."""


@pytest.mark.parametrize(("begins", "lengths"), CARDS)
def test_a_card_of_each_issuer(begins: str, lengths: tuple[int, ...]) -> None:
    cards = Redactor(Policy.load({"text": {"payment_card": "mask"}}))
    for begin in begins.split():
        shown = [cards.message_stream().feed(f"card {_card(begin, length)} x").value for length in range(12, 20)]
        assert [length for length, text in zip(range(12, 20), shown, strict=True) if CARD in text] == [*lengths], begin


def _card(begin: str, length: int) -> str:
    """Return a number with its Luhn digit."""
    digits = begin + "0" * (length - len(begin) - 1)
    doubled = sum(divmod(2 * int(digit), 10)[0] + 2 * int(digit) % 10 for digit in digits[::-2])
    return digits + str(-(doubled + sum(map(int, digits[-2::-2]))) % 10)


@pytest.mark.parametrize("numbers", ["2024-01-02 ", "1 22 333 ", "7 "])
def test_a_value_among_many_numbers(numbers: str) -> None:
    many = numbers * (120 // len(numbers))
    values = {
        **{_card(begin, 16): CARD for begin in ("53542468987", "453918273645")},
        "4242-4242-4242-4242": CARD,
        "DE89 3704 0044 0532 0130 00": IBAN,
        "203.0.113.77": IP,
        "212-555-0123": PHONE,
        "+012-34-5678": f"+{SSN}",  # what begins at `+` is no telephone number
    }
    for value, mark in values.items():
        assert clean(f"{many}{value} {many}x") == f"{many}{mark} {many}x"


def test_many_values_are_withheld_at_every_cut() -> None:
    text, said = (" | ".join(column) for column in zip(*FOUND, strict=True))
    random = Random(35)
    for _ in range(40):
        edges = [0, *sorted(random.choices(range(len(text)), k=200)), len(text)]
        assert clean(*(text[start:end] for start, end in pairwise(edges))) == said


@pytest.mark.parametrize("size", [1, 5, 4_096])
def test_a_page_gets_the_clean_text(size: int) -> None:
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    text, said = ("\n".join(column) for column in zip(*FOUND, strict=True))
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="public_sse_v1",
        context=StreamContext(stream_id="s"),
        redactor=EVERY,
        input_format="ndjson",
        output_format="ndjson",
    )
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "i"}},
        *({"type": "response.output_text.delta", **place, "delta": delta} for delta in deltas),
    ]
    written = pipeline.feed(b"".join(json.dumps(event).encode() + b"\n" for event in events)) + pipeline.close()
    frames = [json.loads(line) for line in written.splitlines()]
    assert "".join(frame["delta"] for frame in frames if frame["kind"] == "message.delta") == said
