//! The files mapped into a process: where the roots of the library are, how stacks unwind, and what
//! the functions are called.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;

use addr2line::Loader;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder as _};
use object::{File, Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags};
use uthread::root;

use crate::memory::{Mapping, PAGE, Piece, Registers};
use crate::model::Frame;

/// Maximum number of frames of a backtrace.
const FRAMES_MAX: usize = 256;

/// The files of a process.
pub(crate) struct Modules {
    modules: Vec<Loaded>,
    unwinder: UnwinderX86_64<Vec<u8>, MayAllocateDuringUnwind>,
    /// The address ranges of the roots.
    pub(crate) roots: Vec<Range<u64>>,
}

/// A file in memory.
struct Loaded {
    /// One of its mappings, by which it is opened.
    mapping: Mapping,
    /// The addresses of its code.
    code: Vec<Range<u64>>,
    /// What is added to an address in the file.
    bias: u64,
    symbols: OnceCell<Option<Loader>>,
}

/// The addresses of a backtrace, from the innermost one on.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Backtrace {
    /// Addresses within the instructions that run or call.
    pub(crate) addresses: Vec<u64>,
    /// `true` if it does not reach the base of the stack.
    pub(crate) is_cut: bool,
}

impl Modules {
    /// Reads the files that have these mappings, as far as they can be read.
    pub(crate) fn of(mappings: Vec<Mapping>) -> Modules {
        let mut files: HashMap<String, Vec<Mapping>> = HashMap::new();
        for mapping in mappings {
            files.entry(mapping.name.clone()).or_default().push(mapping);
        }
        let mut modules = Modules {
            modules: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            roots: Vec::new(),
        };
        for mappings in files.into_values() {
            modules.add(&mappings);
        }
        modules
    }

    /// Adds a file if it has code.
    fn add(&mut self, mappings: &[Mapping]) -> Option<()> {
        let code = mappings.iter().find(|mapping| mapping.is_executable)?;
        let data = fs::read(&code.path).ok()?;
        let file = File::parse(&*data).ok()?;
        // A mapping begins at a page, and a segment anywhere in it.
        let address = file.segments().find_map(|segment| {
            let (offset, length) = segment.file_range();
            let pages = offset - offset % PAGE..offset + length;
            let is_it = is_executable(segment.flags()) && pages.contains(&code.offset);
            is_it.then(|| (segment.address() + code.offset).wrapping_sub(offset))
        })?;
        let bias = code.range.start.wrapping_sub(address);
        if let Some(section) = file.section_by_name(root::SECTION) {
            let start = section.address().wrapping_add(bias);
            self.roots.push(start..start + section.size());
        }
        let range_of = |name| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address() + section.size())
        };
        let data_of = |name| {
            Some(
                file.section_by_name(name)?
                    .uncompressed_data()
                    .ok()?
                    .into_owned(),
            )
        };
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: range_of(".text"),
            text: data_of(".text"),
            got_svma: range_of(".got"),
            eh_frame_svma: range_of(".eh_frame"),
            eh_frame: data_of(".eh_frame"),
            eh_frame_hdr_svma: range_of(".eh_frame_hdr"),
            eh_frame_hdr: data_of(".eh_frame_hdr"),
            ..Default::default()
        };
        let start = mappings.iter().map(|mapping| mapping.range.start).min()?;
        let end = mappings.iter().map(|mapping| mapping.range.end).max()?;
        let module = Module::new(code.name.clone(), start..end, bias, sections);
        self.unwinder.add_module(module);
        let code_ranges = mappings.iter().filter(|mapping| mapping.is_executable);
        self.modules.push(Loaded {
            code: code_ranges.map(|mapping| mapping.range.clone()).collect(),
            mapping: code.clone(),
            bias,
            symbols: OnceCell::new(),
        });
        Some(())
    }

    /// Returns `true` if there is code at this address.
    pub(crate) fn has_code(&self, address: u64) -> bool {
        self.module_at(address).is_some()
    }

    fn module_at(&self, address: u64) -> Option<&Loaded> {
        let mut modules = self.modules.iter();
        modules.find(|module| module.code.iter().any(|code| code.contains(&address)))
    }

    /// Unwinds a stack, of which this piece was read.
    pub(crate) fn unwind(
        &self,
        registers: Registers,
        stack: &Piece,
        cache: &mut Cache,
    ) -> Backtrace {
        let start = UnwindRegsX86_64::new(registers.instruction, registers.stack, registers.base);
        let mut read = |address| stack.word_at(address).ok_or(());
        let mut frames =
            self.unwinder
                .iter_frames(registers.instruction, start, &mut cache.0, &mut read);
        let mut backtrace = Backtrace::default();
        loop {
            match frames.next() {
                Ok(Some(frame)) if backtrace.addresses.len() < FRAMES_MAX => {
                    backtrace.addresses.push(frame.address_for_lookup());
                }
                Ok(None) => return backtrace,
                Ok(Some(_)) | Err(_) => {
                    backtrace.is_cut = true;
                    return backtrace;
                }
            }
        }
    }

    /// Appends the functions at an address, the innermost inlined one first.
    pub(crate) fn name(&self, address: u64, frames: &mut Vec<Frame>) {
        let Some(module) = self.module_at(address) else {
            return frames.push(Frame::unknown(address));
        };
        let load = || Loader::new(&module.mapping.path).ok();
        let Some(symbols) = module.symbols.get_or_init(load) else {
            return frames.push(Frame::of_file(address, &module.mapping.name));
        };
        let address_in_file = address.wrapping_sub(module.bias);
        let before = frames.len();
        if let Ok(mut inlined) = symbols.find_frames(address_in_file) {
            while let Ok(Some(frame)) = inlined.next() {
                let Some(function) = frame
                    .function
                    .as_ref()
                    .and_then(|name| name.demangle().ok())
                else {
                    continue;
                };
                let location = frame.location.as_ref();
                frames.push(Frame {
                    function: function.into_owned(),
                    file: location.and_then(|location| Some(location.file?.to_owned())),
                    line: location.and_then(|location| location.line),
                });
            }
        }
        let symbol = symbols.find_symbol(address_in_file);
        let symbol = symbol.map(|symbol| format!("{:#}", rustc_demangle::demangle(symbol)));
        match (symbol, frames.len() - before) {
            (Some(function), 0) => frames.push(Frame {
                function,
                file: None,
                line: None,
            }),
            (None, 0) => frames.push(Frame::of_file(address, &module.mapping.name)),
            // With its path, which line tables lack, where it was not inlined.
            (Some(function), _) => {
                frames[before..].last_mut().expect("a frame").function = function
            }
            (None, _) => {}
        }
    }
}

fn is_executable(flags: SegmentFlags) -> bool {
    matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0)
}

/// What unwinding remembers of code.
#[derive(Default)]
pub(crate) struct Cache(CacheX86_64<MayAllocateDuringUnwind>);
