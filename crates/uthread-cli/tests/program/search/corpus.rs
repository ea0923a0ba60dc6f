//! A tree of files with everything that makes them hard to search. Equal seeds give equal trees.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use tempfile::TempDir;

/// Common words, so that random patterns have matches.
const WORDS: [&str; 24] = [
    "alpha", "beta", "Gamma", "delta", "epsilon", "zeta", "eta", "Theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "Sigma", "tau", "upsilon", "phi", "chi",
    "psi", "Ωmega",
];

/// A tree in a directory of its own.
pub(crate) struct Corpus {
    root: TempDir,
    rng: Rng,
}

impl Corpus {
    pub(crate) fn new(seed: u64) -> Corpus {
        let mut corpus = Corpus {
            root: tempfile::tempdir().unwrap(),
            rng: Rng::with_seed(seed),
        };
        corpus.texts();
        corpus.binaries();
        corpus.encodings();
        corpus.names();
        corpus.ignored();
        corpus.links();
        corpus
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns a literal that some lines have.
    #[allow(clippy::incompatible_msrv, reason = "tests need the newest Rust")]
    pub(crate) fn literal(&mut self) -> String {
        let one = self.word();
        match self.rng.u8(0..4) {
            0 => format!("{one} {}", self.word()),
            1 => one[..one.floor_char_boundary(2)].to_owned(),
            _ => one.to_owned(),
        }
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.rng.usize(..WORDS.len())]
    }

    fn line(&mut self) -> String {
        let words = self.rng.usize(0..12);
        Vec::from_iter((0..words).map(|_| self.word())).join(" ")
    }

    fn text(&mut self, bytes: usize, end: &str) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < bytes {
            write!(text, "{}{end}", self.line()).unwrap();
        }
        text
    }

    fn put(&self, name: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn texts(&mut self) {
        for index in 0..40 {
            let (bytes, end) = (self.rng.usize(0..9000), ["\n", "\r\n"][index % 2]);
            let text = self.text(bytes, end);
            let folder = PathBuf::from(["src", "src/deep/er", "docs"][index % 3]);
            let extension = ["rs", "md", "txt", "c"][index % 4];
            self.put(folder.join(format!("{index}.{extension}")), text);
        }
        // Around the size of the buffers, and of several of them.
        for bytes in [262_144, 530_000] {
            let mut text = Vec::new();
            while text.len() < bytes {
                let line = self.text(1000, " ");
                text.extend([&line[..], b"\n"].concat());
            }
            text.truncate(bytes);
            self.put(format!("large/{bytes}"), &text);
        }
        self.put("empty", "");
        self.put("newline", "\n");
        self.put("no-end", "alpha beta\nlast line with alpha");
        let long = self.text(150_000, " ");
        // ripgrep searches these two files last, because their long lines make its buffer grow.
        self.put("zz/one-line", long);
        let mut long = self.text(100_000, " ");
        long.push(b'\n');
        let more = self.text(2000, "\n");
        self.put("zz/long-line", [long, more].concat());
    }

    fn binaries(&mut self) {
        let nul_at = |mut text: Vec<u8>, at: usize| {
            text[at] = 0;
            text
        };
        for (name, bytes, at) in [
            ("early", 4000, 10),
            ("late", 4000, 3900),
            ("after-buffer", 100_000, 80_000),
            ("at-end", 270_000, 269_999),
            ("far", 350_000, 340_000),
        ] {
            let text = self.text(bytes, "\n");
            self.put(format!("binary/{name}"), nul_at(text, at));
        }
        let noise = Vec::from_iter((0..50_000).map(|_| self.rng.u8(..)));
        self.put("binary/noise", noise);
        self.put("binary/nothing-but-nul", [0; 3000]);
        self.put("binary/first", b"\0alpha\nbeta\n");
        self.put("binary/line", b"alpha\nbeta \0 alpha\nalpha\n");
    }

    fn encodings(&mut self) {
        let text = String::from_utf8(self.text(3000, "\n")).unwrap();
        let wide = |bytes: fn(u16) -> [u8; 2]| {
            let units = [0xfeff].into_iter().chain(text.encode_utf16());
            Vec::from_iter(units.flat_map(bytes))
        };
        self.put("encoded/utf-16le", wide(u16::to_le_bytes));
        self.put("encoded/utf-16be", wide(u16::to_be_bytes));
        self.put("encoded/bom", format!("\u{feff}{text}"));
        self.put("encoded/latin", b"alpha \xe9\xe8 beta\n\xff\xfe alpha\n");
    }

    fn names(&self) {
        let odd: [&[u8]; 6] = [
            b"with space",
            b"-dash",
            b"new\nline",
            b"quote'\"",
            "ünïcode".as_bytes(),
            b"not-utf8-\xff",
        ];
        for name in odd {
            let path = Path::new("names").join(OsStr::from_bytes(name));
            self.put(path, "alpha in an odd place\nbeta\n");
        }
        self.put("names/x/y/z/w/v/u/t/s/r/q/deep", "alpha\n");
    }

    fn ignored(&self) {
        for (name, contents) in [
            (".hidden", "alpha\n"),
            (".hidden-folder/file", "alpha\n"),
            (".git/config", "alpha\n"),
            (".gitignore", "*.log\n/target/\n!keep.log\ndocs/*.c\n"),
            ("one.log", "alpha\n"),
            ("keep.log", "alpha\n"),
            ("target/built", "alpha\n"),
            ("src/target/not-ignored", "alpha\n"),
            (
                "src/.ignore",
                "secret\n# comment\n\\#hash\n**/generated/**\n",
            ),
            ("src/secret", "alpha\n"),
            ("src/deep/secret", "alpha\n"),
            ("src/#hash", "alpha\n"),
            ("src/deep/generated/file", "alpha\n"),
            ("docs/.rgignore", "!*.c\nprivate\n"),
            ("docs/private/file", "alpha\n"),
            ("docs/extra.c", "alpha\n"),
        ] {
            self.put(name, contents);
        }
    }

    fn links(&self) {
        let link = |target: &str, name: &str| symlink(target, self.path().join(name)).unwrap();
        fs::create_dir(self.path().join("links")).unwrap();
        link("../src", "links/folder");
        link("../keep.log", "links/file");
        link("nowhere", "links/broken");
        link("..", "links/loop");
        link("self", "links/self");
    }
}
