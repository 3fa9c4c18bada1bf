"""Values behind sensitive words where text is not JSON: found in every context and at every cut, and nothing else."""

from __future__ import annotations

import json
from random import Random
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.rules import Context
from tests.rule_samples import CONTEXTS, MIXED

REDACTOR = Redactor(Policy())
SECRET = "kX9mQ2vT7wLzR4"
PEM = "-----BEGIN {} " + "PRIVATE KEY-----\n" + SECRET * 4


def streamed(text: str) -> str:
    stream = REDACTOR.code_stream()
    return "".join(stream.feed(char).value for char in text) + stream.close().value


WITHHELD = {
    "a credentials file": f"aws_secret_access_key = wJalr/{SECRET}",
    "blanks around an equals sign": f"password = {SECRET}",
    "an option in quotes": f'mysql --password "{SECRET}"',
    "an option in single quotes": f"--token '{SECRET}'",
    "arguments as a list in text": f'exec ["mysql","--password","{SECRET}"]',
    "bytes": f"password = b'{SECRET}'",
    "a wrapped string": f'password: Some("{SECRET}")',
    "a string in triple quotes": f'password = """{SECRET}"""',
    "an escaped quote in a string": rf'password = "ab\"2{SECRET}"',
    "an environment file with symbols": f"DB_PASSWORD=kX9(mQ2)v,T'7{SECRET}",
    "an element": f"<password>{SECRET}</password>",
    "a block of YAML": f"password: |\n  {SECRET}\n  {SECRET}",
    "a list of YAML": f"tokens:\n  - {SECRET}\n  - {SECRET}",
    "a member and its value": f"- name: DB_PASSWORD\n  value: {SECRET}",
    "a login": f"machine db login me password {SECRET}",
    "a default of the environment": f'os.environ.get("DB_PASSWORD", "{SECRET}")',
    "many letters first": f"password: abcdefghijklmnopqrstuvwxyzab{SECRET}",
    "a string in a string": rf"x \"a b\" :\"password=\\\"{SECRET}\\\"\\n\"",
    "a container behind a head": f'HTTP 200\n{{"tokens":["{SECRET}"]}}',
    "a container in broken JSON": f'{{"a":1,, "tokens":["{SECRET}"]}}',
    "a container behind a comment": f'{{ // note\n "credentials":{{"a":"{SECRET}"}}}}',
    "a container of Python": f"x {{'tokens': ('{SECRET}',)}}",
    "a value far behind its key": f'x "password":{" " * 40}"{SECRET}"',
    "a cookie with quotes": f'Cookie: theme="dark"; sid={SECRET}',
    "a header with parameters": f'Authorization: Digest username="me", response="{SECRET}"',
    "a header as a pair": f'x [["X-Api-Key","{SECRET}"]]',
    "a pair in a text": f'x [["X-Api-Key","davspTUUMQRYFPVDuvCSAEmjjTs"],["X-Api-Key","{SECRET}"]]',
    "a header as a member": f'x {{"name":"Authorization","value":"Basic {SECRET}"}}',
    "a short bearer token": f"Bearer {SECRET}",
    "a scheme alone": "Basic YWxhZGRpbjpvcGVuc2VzYW1l" + SECRET,
    "a string behind a comment": f'password = /* a, note */ "a, b {SECRET}"',
    "a string on the next line": f'password = \\\n    "a, b {SECRET}"',
    "a list of two": f'x ["password", "my {SECRET}; x"]',
    "a heredoc": f"DB_PASSWORD=<<EOF\nmy quiet\n{SECRET}\nEOF\necho",
    "a heredoc with quotes": f"password = <<-'END'\n  my, quiet {SECRET}\nEND\n",
    "a heredoc of PHP": f"$password = <<<'EOT'\nmy, quiet {SECRET}\nEOT;\n",
    "a character section": f"<password><![CDATA[my <quiet> {SECRET}]]></password>",
    "a character section on its line": f"<password>\n<![CDATA[<b>{SECRET}]]>\n</password>",
    "a character section behind a word": f"password=<![CDATA[<b> {SECRET}]]>",
    "a secure string": f'$password = ConvertTo-SecureString("a b {SECRET}")',
    "a new secure string": f"password = new SecureString('a b {SECRET}')",
    "a secure string alone": f'var password = SecureString("a, {SECRET}");',
    "a formatted verbatim string": f'var password = $@"a b {SECRET}";',
    "a verbatim formatted string": f'string password = @$"a b {SECRET}";',
    "a verbatim string": f'password = @"a, b {SECRET}";',
    "a string of a shell": f"password = $'a, b {SECRET}'",
    "a national string": f"password = N'a, b {SECRET}'",
    "a string of PostgreSQL": f"password = E'a, b {SECRET}'",
    "a raw string of bytes": f'password = rb"""a, b {SECRET}"""',
    "an owned string": f'let password = String::from("a, b {SECRET}");',
    "a slice of bytes": f"password := []byte(`a, b {SECRET}`)",
    "a type": f'password: str = "{SECRET}"',
    "an alternative": f'password = env.X or "{SECRET}"',
    "letters that are no name": "password=vBQfyFEprv" + SECRET,
    "digits before letters": "secret_key = 71551940829T" + SECRET,
    "a dollar inside": "authToken=QbJ$SvTL*Ba/VsxkIzXFs:Z" + SECRET,
    "a private key as a value": "password=" + PEM.format("RSA") + "\n" + SECRET,
    "a string in brackets": f'client_secret = (\n    "w231584279R{SECRET}"\n)',
    "a key in letters that look alike": f'\u0430_\u0440i_k\u0435\u0443 = "{SECRET}"',
    "a key with invisible characters": f"p\u200ba\u200bssword={SECRET}",
    "a labelled field": f'{{"id": "x", "label": "password", "value": "{SECRET}"}}',
    "joined strings": f'token = "a1{SECRET}" + "{SECRET}" + "{SECRET}"',
    "joined strings of a known prefix": f'token = "ghp_" + "{SECRET}"',
    "joined strings on lines": f"const token = 'a1{SECRET}' +\n    '{SECRET}';",
    "joined strings behind operators": f'String token = "a1{SECRET}"\n    + "{SECRET}";',
    "joined strings of PHP": f"$token = 'a1{SECRET}' . '{SECRET}';",
    "joined strings of Lua": f"token = 'a1{SECRET}' .. \"{SECRET}\"",
    "joined strings of Basic": f'token = "a1{SECRET}" & "{SECRET}"',
    "joined strings of SQL": f"password := 'a1{SECRET}' || '{SECRET}';",
    "joined strings of a shell": f"TOKEN='a1{SECRET}'\"{SECRET}\"",
    "joined strings of make": f'TOKEN = "a1{SECRET}" \\\n  "{SECRET}"',
    "joined strings in a string": rf"x \"a\" token = \"a1{SECRET}\" + \"{SECRET}\"",
    "two quotes in a string": f"password = 'a1 ''{SECRET}'",
    "a table in CSV": f"name,password\nme,{SECRET}\nyou,{SECRET}\n",
    "a table with tabs": f"name\tpassword\tage\r\nme\t{SECRET}\t1\r\nyou\t{SECRET}\t2\r\n",
    "a table in Markdown": f"| name | **Password** | x |\n|---|:---:|---|\n| me | - | x |\n| me | `{SECRET}` | x |",
    "a table of psql": f" name | password \n------+----\n me   | {SECRET}\n you  | {SECRET}\n(2 rows)",
    "a table of MySQL": f"+---+---+\n| a | api_key |\n+---+---+\n| 1 | {SECRET} |\n| 2 | {SECRET} |\n+---+---+\n2 rows",
    "lines of a statement of SQL": f"INSERT INTO u (\"token\", id) VALUES\n('{SECRET}', 1),\n('{SECRET}', 2);",
    "a table with quotes": f'"name","password","url"\n"me","{SECRET}","x"\n"you","{SECRET}","x"\n',
    "an empty cell": f"name,client secret,url\na,,u\nb,{SECRET},u\n",
    "a table of lines": f"│ password │ {SECRET} │\n",
    "a prompt": f"[sudo] password for jane: {SECRET}\n",
    "a prompt of Git": f"Password for 'https://example.org': {SECRET}\n",
    "a report": f"The password of admin has been set to `{SECRET}`.",
    "a label with a remark": f"Your password (temporary): {SECRET}",
    "a phrase that goes on below": f"Your new API key is:\n\n{SECRET}\n",
    "a sentence in French": f"Le mot de passe est : {SECRET}",
    "a sentence in Spanish": f"La contraseña es {SECRET}",
    "a list of Java": f"args=[--token, {SECRET}]",
    "a key in generated characters": f"e4Passs/token {SECRET}",
    "a key in many of them": f"x9Passwordsx/password '{SECRET}'",
    "a label and fenced code": f"Here is your API key:\n\n```text\n{SECRET}\n```\n",
    "a label and code": f"Here is your API key:\n\n`{SECRET}`\n",
    "a label and words before code": f"Your new token:\n`{SECRET}` (keep it)",
    "typographic quotes": f"The password is “{SECRET}”.",
    "a key of two words in emphasis": f"__API key__: {SECRET}",
    "a key of two words in italics": f"- _Private key_: `{SECRET}`",
    "strings joined without a sign": f"password='n'\"{SECRET}\"",
    "a plan of Terraform": f'  ~ password = "abc" -> "{SECRET}"\n',
    "a dump of PHP": f'["password"]=>\n  string(14) "{SECRET}"\n',
    "a statement of SQL": f"SET PASSWORD = PASSWORD('{SECRET}')",
    **{f"a private key of {kind}": PEM.format(kind) for kind in ("ED25519", "X25519", "ANY", "RSA ", "ec")},
}


@pytest.mark.parametrize("text", WITHHELD.values(), ids=WITHHELD.keys())
def test_a_value_is_withheld_at_every_cut(text: str) -> None:
    cleaned = REDACTOR.text(text)
    assert SECRET[:6] not in cleaned.value
    assert [notice.type for notice in cleaned.notices] == ["redacted"]
    assert streamed(text) == cleaned.value


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD=self.love2024!",
        "--password=this.isMyPass99",
        "https://h.example/?token=cls.Xk9mQ2vT7",
        "password: S3CretPassword",
        "password = Ps4Gamer",
        "password = Summer2024Password",
        "password = Summer2024Winter(x9!",
    ],
)
def test_a_password_that_looks_like_a_name_in_code_is_withheld(text: str) -> None:
    assert REDACTOR.text(text).value.endswith("<redacted>")


BEHIND: Final = {
    f'token = "{SECRET}" + x + "y"': 'token = "<redacted>" + x + "y"',
    f"password = '{SECRET}'": "password = '<redacted>'",
    f'"password": "{SECRET}"\n"user": "me"': '"password": "<redacted>"\n"user": "me"',
    f'curl --token "{SECRET}" "x"': 'curl --token "<redacted>" "x"',
    f"name,password\nme,{SECRET}\nyou,x\n\nEnd, of": "name,password\n<redacted>\n\nEnd, of",
    f"|password|\n|---|\n|{SECRET}|\n\nEnd": "|password|\n<redacted>\n\nEnd",
}


@pytest.mark.parametrize("text", BEHIND)
def test_what_follows_a_value_is_shown(text: str) -> None:
    assert (REDACTOR.text(text).value, streamed(text)) == (BEHIND[text], BEHIND[text])


WHOLE = (
    "api_key=§39555181",
    "api_key=§39555181P",
    "token: §20481-7731",
    "'passcode': §395551",
    "password=§correcthorse",
    "user=me, password=§hunter§, port=1",
    "login(user) password=§hunter",
    "token = §482913",
    "password = §4829",
    "user=me password=§Sommer.Winter§ port=1",
    "passwd:§KGADfEhusOlmcuaTzvLcZvoAADZOi",
    "(token=§KGADfEhusOlmcuaTzvLcZvoAADZOi)",
    "password=§vBQfyFEprv",
    "passphrase=§D1K6k",
    "password=§$kX9mQ2vT7w",
    'password="§$QbJvSTvLBa§"',
    'password="§my-kX9mQ2vT7w§"',
    "password=§2048-11kX9mQ2",
    "api_key: §7.2eaJDlvG99Qi",
    "api_key=§e.wHlQcIbMI9eU65",
    "private key=§kXmQvTwLzabc",
    "admin_pwd=§hunter",
    "session_ids=§kXmQvTwLzabc",
    "> Authorization: §f.fyMOjl9l7dQ1",
    "> Authorization: §2049263053",
    "\\apikey=§kXmQvTwLzabc",
    "secret=§x5-kX9mQ2vT7w",
    "token=§/kX9mQ2v/T7wLzR4x",
    "password: §~kXmQvTwLz",
    "password: §summer_night",
    "password=§wLzRk%dmQvTx",
    "login me\n  password §orykR7uM6cNzHtNhnROPFs§\n",
    "curl -H 'X-Api-Key: §gjzg7a59e.jicrqJUyRNC§' https://example.org",
    "X-Auth-Token: §gjzg7a59e.jicrqjuyrnc§\r\nHost: example.org",
    "> Authorization: §gjzg7a59e.jicrqJUyRNC",
    "done\\nX-Auth-Token: §LiPspfxBkjbZhcJmJAKMJOIBEBEOK§\r\nHost: example.org",
    "password: '§kX9''mQ2''vT7§'",
    "https://example.org/cb#a\u00adpi_key=§cgip04%20Nk27lQ%20%27jPuIX8&b=1",
    "https://example.org/?to=https%3A%2F%2Fx%3Fa%3Db%26token%3D§kX9mQ2vT7wLz&b=1",
    "password = '§kX9''mQ2§' # x",
    "tool --token '§a''b§' -v",
    '"password": §abcdefg!',
    "refreshToken = §xclc7ag1l.omf§\nport = 1",
    "password=§7M>4lvlWQ3bv",
    "password: §H3<jD<d5s6Q<w",
    "password: §WnjfZeMlYwa(FhUc",
    "password: §br[kJ]TtciR2hR]l",
    "config.password = §JLSUAkSVg]YzbijhR",
    "password: §tpkPdk<ryUVJ9&",
    "see password=§jTTNcoVMoi(pQJ(§ ok",
    "--password §9<KBkmH2tzT5z7GO",
    "<b>password=§k40o>zZcP5TMgUAqXtve§</b>",
    "<b>password=§kX9mQ2vT7w§</b> and",
    "https://app:§kX9#mQ2?vT7@db.internal§/app",
    "mysql://app:§kX9]m@AK3SV#u5zw@db.internal§/app",
    'x = "Authorization: §Digest username="me", response="kX9mQ2vT7wLzR4"§", port=1',
    r'x = "{\"password\": \"§a\\\"b kX9mQ2vT7w§\", \"c\": 1}"',
    'x "tokens": §["kX9mQ2vT7wLzR4", // one ] of two\n "quiet heron"]§, "b": 1',
    r"password: '§kX9mQ2vT7w\\§' # x",
    'password: str = "§quiet heron§"',
    "password: |\n§  hunter2x9\n  quiet heron§\nuser: me\n",
    'password = "§kX9mQ2vT7wLzR4kX9mQ2§\nuser = me',
    'sh -c "tool --password §hunter2§" && echo "all done"',
    "I can't log in, password=§ab'cd9Xk2§ x",
    "O'Brien's password: §W?B2`d^C4@(DSD/C§ x",
    "b'password=§hunter2x9§'",
    "password: §kX9m'Q2vT7wLz",
    "the password is §6Lc1),mx;`LpQ`#§ x",
    "run `mysql -u me -p§hunter2§`",
    "`tool --password §hunter2§`",
    "`curl -u me:§hunter2§`",
    "`token §kX9mQ2vT7wLz§`",
    "password=§!hunter2x9",
    "password: §items[3]b4§ x",
    'key "token" "§kX9mQ2vT7w§"',
    r'password = "§kX9mQ2vT7\"§" # x',
    'x "tokens": §[["kX9mQ2vT7wLzR4"], ["quiet heron"]]§, "b": 1',
    'curl -H "Authorization: §Basic kX9mQ2vT7wLz=§\necho "a b"',
    "password §kX9mQ2vTwL§ x",
    "password: |\r§  hunter2x9\r  quiet heron§\ruser: me\r",
    "tokens:\n§  - quiet\n  - kX9mQ2vT7wLzR4§\nport: 1",
    'token=§/kX9mQ2v/T7wLzR4x§ /* a */ "b"',
    'x "password": §{"type": "string", "default": "kX9mQ2vT7w",}§, "b": 1',
    f"password{' ' * 60}§kX9mQ2vT7wLzR4",
    "see §akab-a1b2c3d4e5g6h7k8-a1b2c3d4e5g6h7k8§- or",
    "passwords:\n§- kX9mQ2vT7w\n- quiet\n  heron§\nuser: me",
    "passwords: §[kX9mQ2vT7w, heron]§\nuser: me",
    "The password is §Sommer2024!",
    "Password | §P@ssw0rd!§ |",
    "Password\n§kX9mQ2vT7w§\nLog in",
    "password is §Pa$$w0rd99§, as before",
    "UPDATE users SET password = MD5('§hunter§')",
    "password = bcrypt.hashpw(b'§hunter2§', salt)",
    'if (password.equals("§hunter2§")) {',
    "password&amp;#61;§kX9mQ2vT7w",
    "&amp;quot;password&amp;quot;: &amp;quot;§kX9mQ2vT7w§&amp;quot;",
    "&amp;amp;#x70;assword=§kX9mQ2vT7w",
    'Set-ADAccountPassword -NewPassword (ConvertTo-SecureString -AsPlainText "§hunter2§" -Force)',
    "$ base64 key.der\n§MIIEpAIBAAKCAQEAuX9mQ2vT7wLzR4kX9mQ2vT7w\nkX9mQ2vT7wLzR4kX9mQ2vT7wLzR4\n  kX9mQ2vT7w==§\nDone",
    "§MHcCAQEEIkX9mQ2vT7wLzR4kX9mQ2vT7w\\nkX9mQ2vT7wLzR4kX9mQ2v§\\nand a word",
    "§MHcCAQEEIkX9mQ2vT7wLzR4kX9mQ2vT7w§\nThanks, all",
    "x -k §MHcCAQEEIkX9mQ2vT7wLzR4kX9mQ2vT7w§ id=5 name=bob",
    "§MHcCAQEEIkX9mQ2vT7wLzR4kX9mQ2vT7w=AAAbcdefgh§ and more",
    *(
        f"{before}§MHcCAQEEIkX9mQ2vT7wLzR4kX9mQ2vT7w\nkX9mQ2vT7wLzR4kX9mQ2vT7wLzR4{line}kX9mQ2v==§{after}"
        for line in ("\n  ", "\\n")
        for before, after in (
            ("password=", "\nDone"),
            ("password: '", "'\nx: 1"),
            ("export SECRET_KEY=", "\nuser=me"),
            ("--token ", " -v"),
            ("Basic ", "\nX: y"),
            ("/?a=1&token=", "&b=2"),
            ("secret:\n  ", "\nx: 1"),
        )
    ),
    "password=§MHcCAQEEIkX9mQ2vT7wLzR4kX9mQ2vT7w§ or\nkX9mQ2vT7wLzR4kX9mQ2vT7w",
    "tokens:\n§- kX9mQ2vT7w\n- quiet heron\n- heron§\nuser: me",
    "Kennwort: §kX9mQ2vT7w",
    'password=3D"§hunter2§"',
    '<input name=3D"password" value=3D"§hunter2§">',
    "/?q=%7B%22user%22%3A%22me%22%2C%22password%22%3A%22§hunter2%22%7D§&b=1",
    "%257B%2522password%2522%253A%2522§hunter2%2522%257D",
    "| token | §0123456789abcdef0123456789abcdef§ |",
    "Your session token is §0a1b2c3d-0123-4567-89ab-0123456789ab",
    "id,password\n§1,0123456789abcdef0123456789abcdef",
    "JWT=§kX9mQ2vT7w",
    "db_otp: §839201§\n",
    "WRITE_KEY=§kX9mQ2vT7w",
    "hasło: §hunter2",
    "şifre: §hunter2",
    "новый пароль: §hunter2§, порт: 1",
    "ПАРОЛЬ=§hunter2",
    "MySQL密码\uff1a§hunter2§\n端口\uff1a1",
    "パスワード: §hunter2",
    "password: §「hunter2」§ x",
    "密码\uff1a§hunter2\uff0c请登录",
    "비밀번호 = §hunter2",
    "DB_PASSWORD=§我爱北京天安门",
    "api_key: §中kX9mQ2vT7wLzR4",
    'sqlcmd -S "tcp:db" -U sa -P §hunter2',
    "mysql -u'root' -p'§hunter2§' db",
    "รหัสผ่าน: §kX9mQ2vT7w",
    "पासवर्ड: §kX9mQ2vT7w",
    "كلمة المرور: §kX9mQ2vT7w",
    "api\u2011key: §kX9mQ2vT7w",
    "x_api\u2010key=§kX9mQ2vT7w",
    "password\uff1a§hunter2",
    "password = /* no end: §akab-a1b2c3d4e5g6h7k8-a1b2c3d4e5g6h7k8§- or",
)
"""Texts with a value between `§`."""


@pytest.mark.parametrize("text", WHOLE)
def test_a_value_is_withheld_whatever_its_shape(text: str) -> None:
    before, _, rest = text.partition("§")
    value, _, after = rest.partition("§")
    whole = before + value + after
    assert REDACTOR.text(whole).value == streamed(whole) == f"{before}<redacted>{after}"


def test_prose_after_the_name_of_a_command_is_not_held() -> None:
    stream = REDACTOR.message_stream()
    text = "mysql is a database that many people use"
    assert len("".join(stream.feed(char).value for char in text)) > len(text) - 8


SHOWN = (
    "api_key=None",
    "the secret scan of commit 0123456789abcdef0123456789abcdef01234567",
    "%7B%22token%22%3A%22%22%7D",
    "The bearer: a person who carries it",
    "密码\uff1a必填",
    "密码\uff1a\uff08至少8位\uff09",
    "パスワード\uff1a8文字以上で入力してください",
    "비밀번호: 8자 이상 입력하세요",
    "form.setError('password', 'too short')",
    "пароль: обязательно",
    "otp: required",
    '"admin_api_key_auth": True',
    "token: 3 of 5",
    "password: required",
    "For the Cookies:**",
    "tokens_used=5",
    "token = tokens[0]",
    "password = self._password",
    "token: Optional[str] = None",
    "token = get_token('name')",
    "token = client7.access_token",
    "token = utf8_2str.decoded",
    "token = x509v3.token",
    "secret = base64.b64encode(data)",
    "--password <password>",
    "password=${PASSWORD}",
    "DB_PASSWORD=$PASSWORD",
    'password = "****"',
    'password = "{}".format(x)',
    'f"token={token}"',
    'Authorization: f"Bearer {token}"',
    '["password", "token", "secret"]',
    '"token": "The token to use for requests"',
    "the cookie is stored by the browser",
    "-----BEGIN CERTIFICATE-----\nMIIB",
    "login(user, password=hunter)",
    "login(\n    user,\n    password=hunter,\n)",
    "{'token': session.token, 'password': pw}",
    "cookies=jar.get('a')",
    "scopes: token:read secret:write",
    "f({token:e.token,secret:t})",
    'f({"token":t.token})',
    "let t = Token::End;",
    "password=/run/secrets/db",
    "password=$PASSWORD",
    "token=$this->token",
    'token = "your-api-key-2"',
    "auth=ok",
    "token: 2 of 512",
    "token = 4829",
    'headers = [["X-Api-Key","Content-Type"]]',
    "curl -H 'X-Api-Key: config.apiKey'",
    "-H 'Authorization: get_token(user)'",
    "f(password='', user='me')",
    "x = {'password': '', 'user': 'me'}",
    '"cookie": "^0.6.0"',
    'x {"properties":{"password":{"type":"string","minLength":12}}}',
    "password=<password> host=localhost",
    "password kX9mQ2vTw and password kX9mq2vtwl",
    '["password", "must be 8Kx!q"]',
    '["password", "[REDACTED x8K2q9zz]"]',
    '["--token-count","--no-cookies"]',
    "  --token FILE    The file",
    "?max_tokens=5&sort=key",
    "G2RX_TOKENS = [(re.compile(rx), Sub64Ab99x)]",
    "tokens:\n- read\n- SHA256-signed\n",
    "secrets:\n- name: prod-Db01-Key02x\n",
    "getApiKey('stripe')",
    "keyring.get_password('service', 'user')",
    "if (!strcmp(token, 'exit'))",
    "R&amp;D, password&amp;",
    "token: List[int32]",
    "token = sha256(getBytes(name)",
    "token: Map<String,Token2>",
    "password = encode(Base64(key",
    "token = tokens[i]<MAX_TOKENS",
    "<password></password><token/>",
    "http://localhost:8080/@scope/name",
    'x {"paths":{"/token":{"post":{"summary":"Get"}}}}',
    'x {"paths":{"/token":{"get":{"x":1}}}}',
    'x {"tokens": [get(A), "quiet heron mill"]}',
    'x "tokens": [1, 2, 3]',
    "login(user, password=hunter, port=1)",
    "    user, password=hunter)",
    "x = {token:session, b:1}",
    "token = 0.1.2-3+4",
    "Authorization: 12-34/56",
    "Sec-WebSocket-Protocol: chat, quiet1heronmills",
    "https://example.org/back?code=quiet1heronmills",
    '"token": a1b',
    "Authorization: v2",
    'password = "" + "quiet1heronmills"',
    'x = {"password": ""}\n"user": "quiet1heronmills"',
    f"| token | id |\n|---|---|\n| next | {SECRET} |\n",
    f"id,token\n{SECRET},next\n",
    f"name,password\n\nid,{SECRET}\n",
    f"name,password\nnone\nid,{SECRET}\n",
    f"The password is required. See {SECRET}",
    f"the password = get() {SECRET}",
    f"The tokens of the model are counted: {SECRET}",
    "Pass true to ix86_force_load_from_GOT_p",
    "The token limit of Claude3Opus200K is high, and the token usage: GPT4Turbo128K",
    "The token type is AccessTokenV2Ext99",
    "class InvalidPaginationToken(Route53ClientError):",
    "key = ec.generate_private_key(ec.SECP256R1())",
    '{"node_modules/js-tokens":{"version":"4.0.0","integrity":"sha512-kX9mQ2vT7wLzR4kX9mQ2vT7wLzR4kX9mQ2vT7wLzR4"}}',
    '{"./lib/tokenize":"./lib/tokenize.js"}',
    "self._auth = BedrockAwsAuth(self._config)",
    "`gateway.<token>` subprotocol, `x9` and more\n",
    '"SubjectTokenWorkloadIdentity",\n "X509WorkloadIdentity"',
    "The password is hashed with PBKDF2WithHmacSHA256.",
    "a private key for SHA256withRSA and an Ed25519Signature",
)


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert (REDACTOR.text(text).value, streamed(text)) == (text, text)


@pytest.mark.parametrize("row", CONTEXTS, ids=[row.name for row in CONTEXTS])
def test_the_samples_of_a_context_at_every_cut(row: Context) -> None:
    for text in (f"x\n{sample}" for sample in row.matches):
        assert streamed(text) == REDACTOR.text(text).value != text
    for text in (f"x\n{sample}" for sample in row.harmless):
        assert streamed(text) == REDACTOR.text(text).value == text


LISTS = {
    "lines of a private key": (
        ["-----BEGIN RSA " + "PRIVATE KEY-----", SECRET * 4, SECRET, "-----END RSA PRIVATE KEY-----", "x"],
        ["<redacted>", "<redacted>", "<redacted>", "<redacted>", "x"],
    ),
    "arguments": (["mysql", "--password", "hunter2", "-v"], ["mysql", "--password", "<redacted>", "-v"]),
    "a header": (["Host", "x", "Authorization", "Basic abc"], ["Host", "x", "Authorization", "<redacted>"]),
    "a cut credential": (["ghp" + "_a1B2c3", "D4e5F6a1B2c3D4", "x"], ["<redacted>", "<redacted>", "<redacted>"]),
    "a cut credential and a text": (
        ["ghp" + "_a1B2c3", "D4e5F6a1B2c3D4 x", "y"],
        ["<redacted>", "<redacted> x", "y"],
    ),
    "lines of a block": (["password: |", "  hunter2x9"], ["password: |", "<redacted>"]),
    "lines of a member": (
        ["- name: DB_PASSWORD", "  value: hunter2x9"],
        ["- name: DB_PASSWORD", "  value: <redacted>"],
    ),
    "a header and a value of letters": (
        ["X-Api-Key", "davspTUUMQRYFPVDuvCSAEmjjTs"],
        ["X-Api-Key", "<redacted>"],
    ),
    "a pass phrase of random words": (
        ["DB_PASSWORD", "JcmJUH bgnPoA jjXaAW PKwAOG"],
        ["DB_PASSWORD", "<redacted>"],
    ),
    "a short piece of a credential": (
        ["//registry.example.org/:_auth=aa6447e1Dccgg", "ki7e26", " end"],
        ["//registry.example.org/:_auth=<redacted>", "<redacted>", " end"],
    ),
    "two headers": (["X-Api-Key", "Content-Type"], ["X-Api-Key", "Content-Type"]),
    "lines of a login": (
        ["machine db.example", "  login joe", "  password hunter", ""],
        ["machine db.example", "  login joe", "  password <redacted>", ""],
    ),
    "a login whose password is the next string": (["login gh password", "hunter"], ["login gh password", "<redacted>"]),
    "an option at the end of a string": (["tool -v --token", "abc"], ["tool -v --token", "<redacted>"]),
    "a sentence that ends in a word": (["the user has no password", "next"], ["the user has no password", "next"]),
    "words behind a login": (["login me", "and the rest", "password it"], ["login me", "and the rest", "password it"]),
    "an entity at the end of a string": (
        ["<p>?a=1&amp;", "Signature=" + SECRET * 3 + " x"],
        ["<p>?a=1&amp;", "Signature=<redacted> x"],
    ),
    "an entity in two strings": (
        ["<p>?a=1&am", "p;Signature=" + SECRET * 3 + " x"],
        ["<p>?a=1&am", "p;Signature=<redacted> x"],
    ),
    "words that are no pieces": (
        ["to", "ken", "API-", "READ", "s", "k-", "id"],
        ["to", "ken", "API-", "READ", "s", "k-", "id"],
    ),
    "words": (["password", "token", "secret", ""], ["password", "token", "secret", ""]),
    "a number at the end of a document": (['{"a":{"token":1}}'], ['{"a":{"token":"<redacted>"}}']),
}


@pytest.mark.parametrize(("texts", "said"), LISTS.values(), ids=LISTS.keys())
def test_strings_of_a_list_are_one_context(texts: list[str], said: list[str]) -> None:
    assert [cleaned.value for cleaned in REDACTOR.texts(texts)] == said
    tree: object = {"a": texts}
    assert REDACTOR.json(tree, string_max_chars=1000).value == {"a": said}


PIECES: Final = {
    "pieces of a credential": (
        ["see ghp", "_a1B2c", "3D4e5", "F6a1B", "2c3D4e5F6a1B2c3D4e5", "F6a1.", "x"],
        ["see ghp", "<redacted>", "<redacted>", "<redacted>", "<redacted>", "<redacted>.", "x"],
    ),
    "pieces of a private key": (
        ["-----BEG", "IN RSA PRIV", "ATE KEY-----\nMIIE", "a1B2", "c3D4", "\n-----END RSA PRIVATE KEY-----", " x"],
        ["-----BEG", "IN RSA PRIV", "<redacted>", "<redacted>", "<redacted>", "<redacted>", " x"],
    ),
    "pieces of an assignment": (
        ["pass", 'word = "hun', 'ter2x9" # x'],
        ["pass", 'word = "<redacted>', '<redacted>" # x'],
    ),
    "pieces of a hash behind its parameters": (
        ["root: $argon2id$v=19", "$m=6", "5536,t=3,p=4$kX9", "mQ2vT7wLzR4kX9", "mQ2ab$pQ8sVbN3mZ6", "xKdF2", "gHjL5 x"],
        ["root: <redacted>", *["<redacted>"] * 5, "<redacted> x"],
    ),
    "pieces of a password with a comma": (
        ["https://app:kX9", "mQ2", ",vT7", "wLzR4@mq", ".example.org/", "a"],
        ["https://app:<redacted>", *["<redacted>"] * 3, "<redacted>/", "a"],
    ),
    "a piece of digits": (
        ["xoxb-123456789012-", "1234567", "890123-aJ338DFga91", "4J2a717Jkc63g"],
        ["<redacted>", "1234567", "<redacted>", "<redacted>"],
    ),
    "pieces of a private key in a header": (
        [
            "Cook",
            "ie: sid=-----BE",
            "GIN R",
            "SA PRIVATE KEY----",
            "-\na4296",
            "1636c",
            "-----END PRIVATE KEY-----",
            "x",
        ],
        ["Cook", "ie: <redacted>", *["<redacted>"] * 5, "x"],
    ),
    "strings behind a credential": (
        ["xoxb-123456789012-aJ338", "main", "develop2", "1f0c9a7"],
        ["<redacted>", "main", "develop2", "1f0c9a7"],
    ),
    **{
        f"a word after a credential: {word}": (
            ["xoxb-123456789012-aJ338", word, "aJ338DFga91"],
            ["<redacted>", word, "aJ338DFga91"],
        )
        for word in ("develop", "Develop", "DEVELOP")
    },
    "letters after a credential that are no word": (
        ["xoxb-123456789012-aJ338", "deVeLop", "aJ338DFga91"],
        ["<redacted>", "deVeLop", "<redacted>"],
    ),
    "few characters after a credential": (["xoxb-123456789012-aJ338", "a1B2", "x"], ["<redacted>", "a1B2", "x"]),
    "a document that breaks off": (['{"password": hunter2x', "x"], ['{"password": <redacted>', "x"]),
    "a comma in the first piece of a password": (
        ["https://app:kX9,m", "Q2vT7", ",wLzR4@mq", ".example.org/", "a"],
        ["https://app:<redacted>", *["<redacted>"] * 2, "<redacted>/", "a"],
    ),
    **{
        f"strings after a long value that ends in its own: {said}": (
            [head + "a1B2c3D4e5F6g7H8i9J0k" * count + tail, "hello world, this is", "plain"],
            [said, "hello world, this is", "plain"],
        )
        for count in (2, 3, 5)
        for head, tail, said in (
            ("password=", ",", "password=<redacted>"),
            ("--password ", '",', "--password <redacted>"),
            ("Authorization: Bearer ", " ok", "Authorization: <redacted>"),
            ("export PASSWORD=", " ok", "export PASSWORD=<redacted>"),
            ("-H 'X-Api-Key: ", "'; ls", "-H 'X-Api-Key: <redacted>'; ls"),
            ("Cookie: session=", " ok", "Cookie: <redacted>"),
        )
    },
    "a word after a long piece": (
        ["v4.local.a5JJe3434a2D", "469eF0", f"{'5eBaD97962eckJDa2J93' * 5}, ok", "a key"],
        ["v4.local.a5JJe3434a2D", "<redacted>", "<redacted>, ok", "a key"],
    ),
    "pieces of a hash that has its shortest form": (
        ["$2b$12$kX9mQ2vT7wLzR4kX9mQ2abpQ", "8sVbN3mZ6xK", "dF2gHjL5tYw", "in words"],
        ["<redacted>", "<redacted>", "<redacted>", "<redacted> words"],
    ),
}


@pytest.mark.parametrize(("texts", "said"), [*LISTS.values(), *PIECES.values()], ids=[*LISTS, *PIECES])
def test_strings_of_an_array_are_read_as_one_text_however_they_arrive(texts: list[str], said: list[str]) -> None:
    assert REDACTOR.json({"a": texts}, string_max_chars=1000).value == {"a": said}
    text = json.dumps({"a": texts})
    for at in range(len(text)):
        stream = REDACTOR.argument_stream()
        shown = [stream.feed(text[:at]), stream.feed(text[at:]), stream.finish().rest]
        assert json.loads("".join(each.value for each in shown)) == {"a": said}


_SALT: Final = "kX9mQ2vT7wLzR4kX9mQ2ab"
_DIGEST: Final = "pQ8sVbN3mZ6xKdF2gHjL5tYwR9cEaU4oPiSeDrTfGhJ"
_HEX: Final = "3f9a0c71d85be246a7c1904e6b2d8f35e0a49c7712b86d5f"
HASHES: Final = {
    "Argon2": f"$argon2id$v=19$m=65536,t=3,p=4${_SALT}${_DIGEST}",
    "Argon2 with data": f"$argon2id$v=19$m=65536,t=3,p=4,keyid=Zm9v,data=YmFy${_SALT}${_DIGEST}",
    "Argon2 without a version": f"$argon2i$m=65536,t=3,p=4${_SALT}${_DIGEST}",
    "Argon2 of Django": f"argon2$argon2id$v=19$m=102400,t=2,p=8${_SALT}${_DIGEST}",
    "bcrypt": f"$2b$12${_SALT}{_DIGEST[:31]}",
    "bcrypt of Django": f"bcrypt_sha256$$2b$12${_SALT}{_DIGEST[:31]}",
    "bcrypt of Passlib": f"$bcrypt-sha256$v=2,t=2b,r=12${_SALT}${_DIGEST[:31]}",
    "scrypt": f"$scrypt$ln=17,r=8,p=1${_SALT}${_DIGEST}",
    "scrypt, simple": f"$s0$e0801${_SALT}==${_DIGEST}=",
    "scrypt of crypt": f"$7$C6..../....{_SALT}${_DIGEST}",
    "scrypt of Django": f"scrypt$16384${_SALT}$8$1${_DIGEST}{_DIGEST}==",
    "scrypt of Werkzeug": f"scrypt:32768:8:1${_SALT}${_HEX}{_HEX}",
    "PBKDF2": f"$pbkdf2-sha512$i=600000,l=32${_SALT}${_DIGEST}",
    "PBKDF2 of Passlib": f"$pbkdf2-sha256$29000${_SALT}${_DIGEST}",
    "PBKDF2 of Django": f"pbkdf2_sha256$600000${_SALT}${_DIGEST}=",
    "PBKDF2 of Werkzeug": f"pbkdf2:sha256:600000${_SALT}${_HEX}",
    "PBKDF2 of LDAP": f"{{PBKDF2-SHA256}}10000${_SALT}${_DIGEST}",
    "PBKDF2 of GRUB": f"grub.pbkdf2.sha512.10000.{_HEX.upper()}.{_HEX.upper()}",
    "SHA-512 crypt": f"$6$rounds=656000${_SALT[:16]}${_DIGEST}{_DIGEST}",
    "yescrypt": f"$y$j9T${_SALT}${_DIGEST}",
    "portable": f"$P$B{_SALT}{_DIGEST[:8]}",
    "SCRAM": f"SCRAM-SHA-256$4096:{_SALT}==${_DIGEST}=:{_DIGEST}=",
    "Kerberos": f"$krb5tgs$23$*svc$EXAMPLE$x*${_HEX}${_HEX}",
}
"""Hashes of passwords of several parts."""


@pytest.mark.parametrize("text", HASHES.values(), ids=HASHES)
def test_pieces_of_a_hash_are_withheld_wherever_they_are_cut(text: str) -> None:
    """Parameters and salt may be shown in the first string, before they can be told from other text."""
    random = Random(text)
    secret = {part[at : at + 6] for part in (_DIGEST, _HEX, _HEX.upper()) for at in range(len(part) - 5)}
    secret = {window for window in secret if window in text}
    for most in (*range(4, 24), *range(24, 80, 4)):
        pieces, rest = [], f"root: {text}"
        while rest:
            size = random.randint(most // 3, most)
            pieces.append(rest[:size])
            rest = rest[size:]
        shown = REDACTOR.json({"a": pieces}, string_max_chars=1000).value
        assert isinstance(shown, dict)
        said = "".join(shown["a"])
        assert not [window for window in secret if window in said], (pieces, said)


@pytest.mark.parametrize("texts", [row[0] for row in PIECES.values()], ids=PIECES)
def test_entries_of_a_log_are_one_text(texts: list[str]) -> None:
    """All entries are known, so also the first piece of a secret is withheld."""
    text = REDACTOR.text("".join(texts)).value
    joined = "".join(each.value for each in REDACTOR.texts(texts))
    while "<redacted><redacted>" in joined:
        joined = joined.replace("<redacted><redacted>", "<redacted>")
    assert joined == text


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"name": "Authorization", "value": "Basic x"}, {"name": "Authorization", "value": "<redacted>"}),
        ({"value": "x", "name": "DB_PASSWORD"}, {"value": "<redacted>", "name": "DB_PASSWORD"}),
        ({"Name": "/prod/db/password", "Value": "x"}, {"Name": "/prod/db/password", "Value": "<redacted>"}),
        ({"name": "Accept", "value": "x"}, {"name": "Accept", "value": "x"}),
    ],
)
def test_a_member_names_the_value_of_another(tree: object, said: object) -> None:
    assert REDACTOR.json(tree, string_max_chars=1000).value == said


_LETTERS: Final = ("b", "br", "e", "f", "fr", "l", "n", "q", "r", "rb", "rf", "u", "u8", "x", "@", "$", "$@", "@$")
_CALLS: Final = (
    *("Some", "Ok", "Just", "SecretStr", "String", "Str", "bytes", "str", "from", "Password", "Box", "Rc", "Arc", "of"),
    *("to_string", "Buffer", "SecureString", "ConvertTo-SecureString", "Sensitive", "Redacted", "Literal", "literal"),
    *("unquote", "text", "quote", "new Password", "Some(String::from"),
)


@pytest.mark.parametrize("opening", [*_LETTERS, *(f"{call}(" for call in _CALLS)])
def test_what_stands_before_the_quote_of_a_secret(opening: str) -> None:
    assert SECRET not in streamed(f'password = {opening}"a, b {SECRET}"')


VALUES_OF_TWO_PARTS: Final = (
    "1/1234567890123456:0123456789abcdef0123456789abcdef",
    "0123456789abcdef01234567:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "1234567890123456|0123456789abcdef0123456789abcdef",
    "00Da1B2c3D4e5F6!a1B2c3D4e5F6g7H8i9J0ka1B2c3D4e5F6g7H8i9J0ka1B2c3D4e5F6g7H8i9J0ka1B2c3D4e5F6g7H8i9J0ka1B2c3D4e5F6",
)
"""Credentials with a character in their middle that ends a value in an address: Asana, Ghost, Meta, Salesforce."""


@pytest.mark.parametrize("value", VALUES_OF_TWO_PARTS)
@pytest.mark.parametrize("before", ["https://example.org/?token=", "?password=", "token=", "password: "])
def test_a_credential_is_withheld_whole_where_a_word_announces_it(before: str, value: str) -> None:
    for size in (1, 7, len(before + value) + 10):
        stream, text = REDACTOR.code_stream(), f"{before}{value}\nand on"
        shown = "".join(stream.feed(text[at : at + size]).value for at in range(0, len(text), size))
        shown += stream.close().value
        assert value[-8:] not in shown
        assert shown.endswith("\nand on")


_LINES_OF_KEY: Final = tuple(MIXED[at : at + 32] * 2 for at in range(0, 25, 8))


@pytest.mark.parametrize("size", [*range(24, 72, 3), 130])
@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (f"passwords:\n- {_LINES_OF_KEY[0]}\n- {_LINES_OF_KEY[1]}\nuser: me", _LINES_OF_KEY[:2]),
        (f"client_secret: |\n  {_LINES_OF_KEY[0]}\n  {_LINES_OF_KEY[1]}\nuser: me", _LINES_OF_KEY[:2]),
        ("text MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + "\n".join(_LINES_OF_KEY) + "\n\nDone now", _LINES_OF_KEY),
    ],
    ids=["list", "block", "key"],
)
def test_a_value_of_several_lines_goes_on_in_the_strings_of_an_array(
    text: str, secrets: tuple[str, ...], size: int
) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    said = "".join(REDACTOR.json(pieces, string_max_chars=1000).value)
    shown = [secret[at : at + 8] for secret in secrets for at in range(len(secret) - 7) if secret[at : at + 8] in said]
    assert shown == []
    assert said.endswith(text[-3:])
