//! A core file: the memory and the threads of a process that has ended, by `core(5)`.
//!
//! Code and constants are not in it, as they are in the files that were mapped.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use object::Endianness;
use object::elf::{FileHeader64, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, PF_X, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::memory::{Mapping, Memory, PAGE, Piece, Registers, word};

/// Where `struct elf_prstatus` has the id of the thread, and its registers in the order of `struct
/// user_regs_struct`.
const STATUS_ID: usize = 32;
const STATUS_REGISTERS: usize = 112;

/// The places of registers in that order.
const RBP: usize = 4;
const RIP: usize = 16;
const RSP: usize = 19;

/// Where `struct elf_prpsinfo` has the id of the process.
const PROCESS_ID: usize = 24;

/// The process of a core file.
pub(crate) struct Core {
    pub(crate) pid: i32,
    file: File,
    parts: Vec<Part>,
    threads: Vec<(i32, Registers)>,
    pub(crate) mappings: Vec<Mapping>,
    /// The mapped files that were found.
    files: Vec<(usize, File)>,
}

/// A part of memory in the core file.
struct Part {
    address: u64,
    /// The number of bytes in the core file, which may be none of a mapped file.
    bytes: u64,
    offset: u64,
    is_executable: bool,
}

impl Core {
    /// Opens a core file of a program, which is found by its name in the core file if `program` is
    /// `None`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no core file of this architecture.
    pub(crate) fn open(path: &Path, program: Option<&Path>) -> Result<Core> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("{name}"))?;
        let mut core = Core {
            pid: 0,
            file,
            parts: Vec::new(),
            threads: Vec::new(),
            mappings: Vec::new(),
            files: Vec::new(),
        };
        core.read_headers()
            .with_context(|| format!("{name} is no core file"))?;
        if core.threads.is_empty() {
            bail!("{name} is no core file: it has no threads");
        }
        core.find_code();
        if let Some(program) = program {
            core.replace_program(program);
        }
        let mappings = core.mappings.iter().enumerate();
        core.files = mappings
            .filter_map(|(index, mapping)| Some((index, File::open(&mapping.path).ok()?)))
            .collect();
        Ok(core)
    }

    fn read_headers(&mut self) -> Result<()> {
        let data = ReadCache::new(&self.file);
        let header = FileHeader64::<Endianness>::parse(&data)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, &data)? {
            if segment.p_type(endian) == PT_LOAD {
                self.parts.push(Part {
                    address: segment.p_vaddr(endian),
                    bytes: segment.p_filesz(endian),
                    offset: segment.p_offset(endian),
                    is_executable: segment.p_flags(endian).0 & PF_X.0 != 0,
                });
            }
            let Some(mut notes) = segment.notes(endian, &data)? else {
                continue;
            };
            while let Some(note) = notes.next()? {
                let bytes = note.desc();
                let kind = note.n_type(endian);
                if kind == NT_PRSTATUS {
                    self.threads.extend(thread(bytes));
                } else if kind == NT_PRPSINFO {
                    self.pid = number(bytes, PROCESS_ID).unwrap_or(0);
                } else if kind == NT_FILE {
                    self.mappings = mappings(bytes).unwrap_or_default();
                }
            }
        }
        self.parts.sort_by_key(|part| part.address);
        Ok(())
    }

    /// Marks the mappings of code. A debugger writes core files without the parts of them that are in
    /// files.
    fn find_code(&mut self) {
        for mapping in &mut self.mappings {
            let mut parts = self.parts.iter();
            let part = parts.find(|part| part.address == mapping.range.start);
            mapping.is_executable = match part {
                Some(part) => part.is_executable,
                None => is_code(mapping).unwrap_or(false),
            };
        }
    }

    /// Takes the code of the program, whose file has the same name or is the first one, from
    /// another file.
    fn replace_program(&mut self, program: &Path) {
        let is_same = |mapping: &&Mapping| mapping.path.file_name() == program.file_name();
        let found = self.mappings.iter().find(is_same).or(self.mappings.first());
        let Some(name) = found.map(|mapping| mapping.name.clone()) else {
            return;
        };
        for mapping in &mut self.mappings {
            if mapping.name == name {
                mapping.path = program.to_owned();
            }
        }
    }

    fn read_piece(&self, piece: &mut Piece) -> Option<()> {
        let end = piece.address.checked_add(piece.bytes.len() as u64)?;
        let after = self
            .parts
            .partition_point(|part| part.address <= piece.address);
        let part = after.checked_sub(1).map(|index| &self.parts[index])?;
        if end <= part.address + part.bytes {
            let offset = part.offset + (piece.address - part.address);
            return self.file.read_exact_at(&mut piece.bytes, offset).ok();
        }
        let (index, file) = self.files.iter().find(|(index, _)| {
            let range = &self.mappings[*index].range;
            range.contains(&piece.address) && end <= range.end
        })?;
        let mapping = &self.mappings[*index];
        let offset = mapping.offset + (piece.address - mapping.range.start);
        file.read_exact_at(&mut piece.bytes, offset).ok()
    }
}

impl Memory for Core {
    fn read(&self, pieces: &mut [Piece]) {
        for piece in pieces {
            if self.read_piece(piece).is_none() {
                piece.bytes.clear();
            }
        }
    }

    fn registers(&self) -> Vec<(i32, Registers)> {
        self.threads.clone()
    }

    fn now_ns(&self) -> Option<u64> {
        None
    }
}

/// Returns `true` if a mapping is that of the code of its file.
fn is_code(mapping: &Mapping) -> Result<bool> {
    let data = ReadCache::new(File::open(&mapping.path)?);
    let header = FileHeader64::<Endianness>::parse(&data)?;
    let endian = header.endian()?;
    let mut segments = header.program_headers(endian, &data)?.iter();
    Ok(segments.any(|segment| {
        let offset = segment.p_offset(endian);
        let is_executable = segment.p_flags(endian).0 & PF_X.0 != 0;
        segment.p_type(endian) == PT_LOAD
            && is_executable
            && offset - offset % PAGE == mapping.offset
    }))
}

/// Returns the id of a thread and its registers.
fn thread(status: &[u8]) -> Option<(i32, Registers)> {
    let register = |place| word(status, STATUS_REGISTERS + 8 * place);
    let registers = Registers {
        instruction: register(RIP)?,
        stack: register(RSP)?,
        base: register(RBP)?,
    };
    Some((number(status, STATUS_ID)?, registers))
}

/// Returns the mappings of files: their number and the size of a page; then the start, the end and
/// the page in the file of each; then their names, each with a zero at its end.
fn mappings(note: &[u8]) -> Option<Vec<Mapping>> {
    let count = word(note, 0)? as usize;
    let page = word(note, 8)?;
    let names = note.get(count.checked_mul(24)?.checked_add(16)?..)?;
    let names = names.split(|byte| *byte == 0);
    let read = |(index, name): (usize, &[u8])| {
        let at = |place: usize| word(note, 16 + 24 * index + 8 * place);
        let name = String::from_utf8_lossy(name).into_owned();
        Some(Mapping {
            range: at(0)?..at(1)?,
            offset: at(2)? * page,
            is_executable: false,
            path: PathBuf::from(&name),
            name,
        })
    };
    names.take(count).enumerate().map(read).collect()
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
