//! What secrets of others look like: a literal to look for, and a check of what follows it. No
//! check looks behind more than three bytes, or past the window that it is given.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use baton_domain::text::{CLAIM_TOKEN_PREFIX, KEY_PREFIX};

use super::MASK;
use super::encodings::{PARTIAL, base64, hex, unbase64, unhex};
use super::scan::{BEHIND, Finding, Hit, Tail};

/// Every shape, ready to be looked for.
pub static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::all);

/// Where a shape may begin, and how to tell.
pub struct Shapes {
    /// Looks for the literals of all anchors, in any case.
    pub automaton: AhoCorasick,
    anchors: Vec<Anchor>,
}

struct Anchor {
    literal: Vec<u8>,
    /// Whether the case of the literal matters.
    cased: bool,
    check: Check,
    /// Anchors whose literal is where this one is found, too, because this one begins with it.
    within: Vec<usize>,
}

enum Check {
    /// A token that begins so.
    Token(&'static Token),
    /// The same in base64, with so many bytes before it in its group of three.
    InBase64(&'static Token, usize),
    /// The same in hex.
    InHex(&'static Token),
    /// Three parts of JSON in base64.
    Jwt,
    /// A scheme, and a password before the host.
    Url { colon: &'static [u8], at: &'static [u8] },
    /// What proves a caller in a header.
    Bearer,
    /// A user and a password in a header.
    Basic,
    /// A name that says what the value is.
    Named,
}

/// A token that is told by how it begins.
struct Token {
    prefix: &'static str,
    /// What follows the prefix.
    of: Class,
    /// At least so much of it.
    min: usize,
    /// Whether it is one only at the beginning of a word.
    word: bool,
    /// Whether there must be letters of both cases and digits: plain words have not all of them.
    mixed: bool,
    finding: Finding,
}

/// Bytes that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Letters and digits.
    Alnum,
    /// Capital letters and digits.
    Upper,
    /// The same, `_`, `-` and `.`.
    Word,
    /// What bearers and values are written with.
    Value,
    /// Both alphabets of base64.
    Base64,
    /// The same over several lines.
    Base64Lines,
    /// Hex digits.
    Hex,
    /// The last line of a block.
    BlockEnd,
}

impl Class {
    /// Whether the byte is one of them.
    pub fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Word => byte.is_ascii_alphanumeric() || b"_-.".contains(&byte),
            Self::Value => byte.is_ascii_alphanumeric() || b"_-.~+/=".contains(&byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte),
            Self::Base64Lines => Self::Base64.has(byte) || b"\r\n".contains(&byte),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::BlockEnd => {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || b" -%+".contains(&byte)
            }
        }
    }

    fn run(self, bytes: &[u8]) -> usize {
        bytes.iter().take_while(|byte| self.has(**byte)).count()
    }
}

const fn token(prefix: &'static str, of: Class, min: usize) -> Token {
    Token { prefix, of, min, word: false, mixed: false, finding: Finding::Shape }
}

/// A prefix that is also the end of plain words.
const fn short(prefix: &'static str, of: Class, min: usize) -> Token {
    Token { word: true, mixed: true, ..token(prefix, of, min) }
}

const fn own(prefix: &'static str, finding: Finding) -> Token {
    Token { finding, ..token(prefix, Class::Alnum, 1) }
}

/// How a block of a private key begins.
const BLOCK: Token = token("-----BEGIN", Class::BlockEnd, 1);

/// Tokens by how they begin.
static TOKENS: &[Token] = &[
    own(CLAIM_TOKEN_PREFIX, Finding::ClaimToken),
    own(KEY_PREFIX, Finding::Key),
    BLOCK,
    token("ghp_", Class::Alnum, 30),
    token("gho_", Class::Alnum, 30),
    token("ghu_", Class::Alnum, 30),
    token("ghs_", Class::Alnum, 30),
    token("ghr_", Class::Alnum, 30),
    token("github_pat_", Class::Word, 30),
    token("glpat-", Class::Word, 20),
    token("gldt-", Class::Word, 20),
    token("glrt-", Class::Word, 20),
    token("glptt-", Class::Word, 20),
    token("xoxa-", Class::Word, 20),
    token("xoxb-", Class::Word, 20),
    token("xoxe-", Class::Word, 20),
    token("xoxp-", Class::Word, 20),
    token("xoxr-", Class::Word, 20),
    token("xoxs-", Class::Word, 20),
    token("xapp-", Class::Word, 20),
    Token { word: true, ..token("AKIA", Class::Upper, 16) },
    Token { word: true, ..token("ASIA", Class::Upper, 16) },
    token("AIza", Class::Word, 33),
    token("ya29.", Class::Word, 30),
    token("GOCSPX-", Class::Word, 20),
    short("sk-", Class::Word, 20),
    token("sk_live_", Class::Alnum, 20),
    token("sk_test_", Class::Alnum, 20),
    token("rk_live_", Class::Alnum, 20),
    token("whsec_", Class::Value, 24),
    token("npm_", Class::Alnum, 36),
    token("pypi-AgE", Class::Word, 40),
    short("hf_", Class::Alnum, 30),
    short("r8_", Class::Alnum, 30),
    short("SG.", Class::Word, 50),
    short("gsk_", Class::Alnum, 40),
    short("xai-", Class::Alnum, 40),
    token("shpat_", Class::Hex, 32),
    token("dop_v1_", Class::Hex, 60),
    token("lin_api_", Class::Alnum, 30),
    token("tskey-auth-", Class::Word, 20),
    token("dckr_pat_", Class::Word, 20),
    token("PMAK-", Class::Word, 30),
];

/// Names whose value is a secret, if it looks like one.
const NAMES: [&str; 8] =
    ["password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "access_key"];
/// How long the rest of such a name may be.
const NAME_REST_MAX: usize = 24;
/// Bytes of the shortest value that is taken for one.
const VALUE_MIN: usize = 16;
/// Bytes of the longest first part of a JSON web token that is looked at.
const JWT_HEAD_MAX: usize = 512;
/// Bytes in which the first line of a block says what it is.
const BLOCK_LINE_MAX: usize = 64;

impl Shapes {
    fn all() -> Self {
        let mut anchors = vec![];
        let mut add = |literal: &[u8], cased, check| {
            let literal = literal.to_vec();
            anchors.push(Anchor { literal, cased, check, within: vec![] });
        };
        for token in TOKENS {
            let prefix = token.prefix.as_bytes();
            add(prefix, true, Check::Token(token));
            add(&hex(prefix), false, Check::InHex(token));
            for offset in 0..PARTIAL.len() {
                let literal = base64(prefix, offset);
                // What is left of a short prefix stands in any text.
                if literal.len() >= 3 {
                    add(&literal, true, Check::InBase64(token, offset));
                }
            }
        }
        add(b"eyJ", true, Check::Jwt);
        add(b"://", true, Check::Url { colon: b":", at: b"@" });
        add(b":\\/\\/", true, Check::Url { colon: b":", at: b"@" });
        add(b"%3A%2F%2F", false, Check::Url { colon: b"%3A", at: b"%40" });
        for space in [" ", "%20", "+"] {
            add(format!("bearer{space}").as_bytes(), false, Check::Bearer);
            add(format!("basic{space}").as_bytes(), false, Check::Basic);
        }
        for name in NAMES {
            add(name.as_bytes(), false, Check::Named);
        }
        let literals: Vec<_> =
            anchors.iter().map(|anchor: &Anchor| anchor.literal.to_ascii_lowercase()).collect();
        for (at, anchor) in anchors.iter_mut().enumerate() {
            let hidden =
                |other: &usize| *other != at && literals[at].starts_with(&literals[*other]);
            anchor.within = (0..literals.len()).filter(hidden).collect();
        }
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).ascii_case_insensitive(true);
        let automaton = builder.build(anchors.iter().map(|anchor| &anchor.literal));
        Self { automaton: automaton.expect("the table is small"), anchors }
    }

    /// Whether a secret begins where the literal of this anchor was found: `behind` is what stands
    /// before it, `window` begins with the literal and ends where nobody may look further.
    pub fn check(&self, anchor: usize, behind: &[u8], window: &[u8]) -> Option<Hit> {
        let found = &self.anchors[anchor];
        let hidden = found.within.iter().map(|at| &self.anchors[*at]);
        let mut all = [found].into_iter().chain(hidden);
        all.find_map(|anchor| anchor.check(behind, window))
    }
}

impl Anchor {
    fn check(&self, behind: &[u8], window: &[u8]) -> Option<Hit> {
        let Self { literal, cased, check, .. } = self;
        if *cased && !window.starts_with(literal) {
            return None;
        }
        let rest = &window[literal.len()..];
        match check {
            Check::Token(token) if token.is_block() => block(window),
            Check::Token(token) => {
                let run = token.fits(rest).filter(|_| !token.word || begins_word(behind))?;
                Some(token.hit(literal.len() + run, Tail::Run(token.of)))
            }
            Check::InBase64(token, offset) => {
                let run = Class::Base64.run(window);
                let bytes = unbase64(&window[..run], *offset);
                // The first byte is whole only if nothing stands before it in its group.
                let found = bytes.get(offset + 1..)?.strip_prefix(&token.prefix.as_bytes()[1..])?;
                let tail = if token.is_block() { Class::Base64Lines } else { Class::Base64 };
                token.fits_decoded(found).then(|| token.hit(run, Tail::Run(tail)))
            }
            Check::InHex(token) => {
                let run = Class::Hex.run(window);
                let bytes = unhex(&window[..run]);
                let found = bytes.strip_prefix(token.prefix.as_bytes())?;
                token.fits_decoded(found).then(|| token.hit(run, Tail::Run(Class::Hex)))
            }
            Check::Jwt => jwt(window),
            Check::Url { colon, at } => url(window, literal.len(), colon, at),
            Check::Bearer => value(rest, 0, is_credential).map(|hit| hit.after(literal.len())),
            Check::Basic => value(rest, 0, is_pair).map(|hit| hit.after(literal.len())),
            Check::Named => named(rest).map(|hit| hit.after(literal.len())),
        }
    }
}

impl Token {
    fn is_block(&self) -> bool {
        self.prefix == BLOCK.prefix
    }

    fn hit(&self, len: usize, then: Tail) -> Hit {
        Hit { keep: 0, len, then, finding: self.finding }
    }

    /// How much of what follows the prefix belongs to the token, if it is one.
    fn fits(&self, rest: &[u8]) -> Option<usize> {
        let run = self.of.run(rest);
        (run >= self.min && (!self.mixed || is_mixed(&rest[..run]))).then_some(run)
    }

    fn fits_decoded(&self, rest: &[u8]) -> bool {
        if self.is_block() { says_private(rest) } else { self.fits(rest).is_some() }
    }
}

impl Hit {
    fn after(self, bytes: usize) -> Self {
        Self { keep: self.keep + bytes, ..self }
    }
}

/// A private key between its two lines; a public one or a certificate is no secret.
fn block(window: &[u8]) -> Option<Hit> {
    let line = &window[BLOCK.prefix.len()..];
    says_private(line).then_some(BLOCK.hit(BLOCK.prefix.len(), Tail::Block))
}

fn says_private(line: &[u8]) -> bool {
    let line = &line[..line.len().min(BLOCK_LINE_MAX)];
    let first = position(line, b"-----").map_or(line, |end| &line[..end]);
    position(first, b"PRIVATE").is_some()
}

fn jwt(window: &[u8]) -> Option<Hit> {
    let part = |bytes: &[u8]| {
        bytes.iter().take_while(|byte| Class::Base64.has(**byte) && **byte != b'=').count()
    };
    let head = part(window);
    let rest = window.get(head + 1..).filter(|_| (10..=JWT_HEAD_MAX).contains(&head))?;
    let good = window[head] == b'.' && rest.starts_with(b"eyJ");
    let len = head + 1;
    let hit = Hit { keep: 0, len, then: Tail::Run(Class::Word), finding: Finding::Shape };
    good.then_some(hit)
}

/// The password of a URL. What only stands for one is left as it is.
fn url(window: &[u8], literal: usize, colon: &[u8], at: &[u8]) -> Option<Hit> {
    let ends = |byte: u8| byte.is_ascii_whitespace() || b"/?#\"'<>`\\".contains(&byte);
    let authority = &window[literal..];
    let authority = &authority[..authority.iter().take_while(|byte| !ends(**byte)).count()];
    let authority = &authority[..last_position(authority, at)?];
    let user = position(authority, colon)?;
    let password = &authority[user + colon.len()..];
    let stands_for_one = password.is_empty()
        || password.starts_with(MASK.as_bytes())
        || b"*{[".contains(&password[0])
        || (password[0] == b'$'
            && password
                .get(1)
                .is_some_and(|byte| b"{_".contains(byte) || byte.is_ascii_uppercase()));
    let keep = literal + user + colon.len();
    let hit = Hit { keep, len: password.len(), then: Tail::None, finding: Finding::Shape };
    (!stands_for_one).then_some(hit)
}

/// A value under a name that says that it is a secret.
fn named(rest: &[u8]) -> Option<Hit> {
    let more = rest.iter().take_while(|byte| Class::Word.has(**byte) && **byte != b'.').count();
    if more > NAME_REST_MAX {
        return None;
    }
    let mut at = more;
    at += quote(&rest[at..]);
    at += blank(&rest[at..]);
    rest.get(at).filter(|byte| b":=".contains(byte))?;
    at += 1;
    at += blank(&rest[at..]);
    at += quote(&rest[at..]);
    let called = |hit: &Hit| rest.get(hit.keep + hit.len) == Some(&b'(');
    let hit = value(rest, at, |value| is_mixed(value) && value.len() >= VALUE_MIN);
    // What is called is a function.
    hit.filter(|hit| !called(hit))
}

fn value(rest: &[u8], at: usize, is_one: impl Fn(&[u8]) -> bool) -> Option<Hit> {
    let own = [CLAIM_TOKEN_PREFIX, KEY_PREFIX].map(str::as_bytes);
    let from = &rest[at..];
    // What is our own is told as such.
    if own.iter().any(|prefix| from.starts_with(prefix)) {
        return None;
    }
    let len = Class::Value.run(from);
    let hit = Hit { keep: at, len, then: Tail::Run(Class::Value), finding: Finding::Shape };
    is_one(&from[..len]).then_some(hit)
}

fn is_credential(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    value.len() >= VALUE_MIN && digits > 2 && value.iter().any(u8::is_ascii_alphabetic)
}

/// A user and a password in base64.
fn is_pair(value: &[u8]) -> bool {
    let bytes = unbase64(value, 0);
    let plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    value.len() >= VALUE_MIN / 2 && bytes.contains(&b':') && bytes.iter().all(plain)
}

/// Letters of both cases and more than one digit: names have at most a version.
fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_uppercase)
        && value.iter().any(u8::is_ascii_lowercase)
        && value.iter().filter(|byte| byte.is_ascii_digit()).count() > 1
}

/// A quote, perhaps with the backslash of a document inside of another one.
fn quote(bytes: &[u8]) -> usize {
    let slash = usize::from(bytes.first() == Some(&b'\\'));
    let is_one = bytes.get(slash).is_some_and(|byte| b"\"'".contains(byte));
    if is_one { slash + 1 } else { 0 }
}

fn blank(bytes: &[u8]) -> usize {
    bytes.iter().take(4).take_while(|byte| b" \t".contains(byte)).count()
}

/// Whether what comes next begins a word: an escape before it is no part of it.
fn begins_word(behind: &[u8]) -> bool {
    let mut back = behind.iter().rev().copied();
    let before: [Option<u8>; BEHIND] = std::array::from_fn(|_| back.next());
    match before {
        [None, ..] => true,
        [Some(byte), ..] if !byte.is_ascii_alphanumeric() => true,
        [_, Some(b'\\'), _] => true,
        [Some(low), Some(high), Some(b'%')] => low.is_ascii_hexdigit() && high.is_ascii_hexdigit(),
        _ => false,
    }
}

fn position(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word))
}

fn last_position(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).rposition(|part| part.eq_ignore_ascii_case(word))
}
