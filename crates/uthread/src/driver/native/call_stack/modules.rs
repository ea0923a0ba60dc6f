//! Unwind information of the program and its libraries, as the linker has mapped them.

use std::{ptr, slice};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, ParsedEhFrameHdr,
    Pointer, Register, RegisterRule, UnwindContext, UnwindSection,
};

use crate::tls::modules;

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// The rules by which the registers of a caller are found.
pub(super) struct Rules {
    /// The register to which `offset` is added for the address of the frame, at its high end.
    pub(super) base: Register,
    pub(super) offset: i64,
    /// The end of the instruction from which on the base is the frame pointer, if it is.
    pub(super) prologue_end: Option<u64>,
    /// Registers that the function has saved or changed.
    pub(super) registers: Vec<(Register, RegisterRule<usize>)>,
    /// The register that has the return address in the caller, or stands for it.
    pub(super) return_address: Register,
}

/// Returns the rules at the address. Returns `None` if there are none, or complicated ones.
pub(super) fn rules(address: u64, frame_pointer: Register) -> Option<Rules> {
    let mut rules = None;
    modules::visit(|info| {
        let module = Module {
            address: info.dlpi_addr,
            segments: modules::segments(info),
        };
        let contains = module.loaded(address).is_some();
        if contains && let Some(info) = module.unwind_info() {
            rules = info.rules(address, frame_pointer);
        }
        contains
    });
    rules
}

/// A module, which is not unloaded: the linker keeps its list locked.
struct Module<'a> {
    address: u64,
    segments: &'a [libc::Elf64_Phdr],
}

impl<'a> Module<'a> {
    /// Returns the segment that contains the address.
    fn loaded(&self, address: u64) -> Option<&libc::Elf64_Phdr> {
        self.segments.iter().find(|segment| {
            segment.p_type == libc::PT_LOAD
                && address.wrapping_sub(self.start(segment)) < segment.p_memsz
        })
    }

    fn start(&self, segment: &libc::Elf64_Phdr) -> u64 {
        self.address.wrapping_add(segment.p_vaddr)
    }

    fn unwind_info(&self) -> Option<UnwindInfo<'a>> {
        let header = (self.segments.iter())
            .find(|segment| segment.p_type == libc::PT_GNU_EH_FRAME)
            .map(|segment| self.start(segment))?;
        let mut bases = BaseAddresses::default().set_eh_frame_hdr(header);
        let parsed = EhFrameHdr::new(self.bytes_from(header)?, NativeEndian)
            .parse(&bases, size_of::<usize>() as u8)
            .ok()?;
        let Pointer::Direct(frames) = parsed.eh_frame_ptr() else {
            return None;
        };
        bases = bases.set_eh_frame(frames);
        Some(UnwindInfo {
            header: parsed,
            frames: EhFrame::new(self.bytes_from(frames)?, NativeEndian),
            bases,
        })
    }

    /// Returns the bytes from an address to the end of its segment, if that is constant.
    fn bytes_from(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self.loaded(address)?;
        let is_constant = segment.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
        let length = (self.start(segment) + segment.p_filesz).checked_sub(address)?;
        let first = ptr::with_exposed_provenance(address as usize);
        // SAFETY: the segment is mapped while the list is locked, and nothing changes it.
        #[allow(unsafe_code, reason = "a segment that the linker has mapped")]
        is_constant.then(|| unsafe { slice::from_raw_parts(first, length as usize) })
    }
}

/// The unwind information of a module: the sections `.eh_frame_hdr` and `.eh_frame`.
struct UnwindInfo<'a> {
    header: ParsedEhFrameHdr<Bytes<'a>>,
    frames: EhFrame<Bytes<'a>>,
    bases: BaseAddresses,
}

impl UnwindInfo<'_> {
    fn rules(&self, address: u64, frame_pointer: Register) -> Option<Rules> {
        let (find, table) = (EhFrame::cie_from_offset, self.header.table()?);
        let function = table
            .fde_for_address(&self.frames, &self.bases, address, find)
            .ok()?;
        let mut context = UnwindContext::new();
        let mut rows = function
            .rows(&self.frames, &self.bases, &mut context)
            .ok()?;
        let mut prologue_end = None;
        loop {
            let row = rows.next_row().ok()??;
            let base = match *row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => Some((register, offset)),
                CfaRule::Expression(_) => None,
            };
            if prologue_end.is_none() && base.is_some_and(|(base, _)| base == frame_pointer) {
                prologue_end = Some(row.start_address());
            }
            if row.contains(address) {
                let (base, offset) = base?;
                let registers = row.registers();
                return Some(Rules {
                    base,
                    offset,
                    prologue_end: prologue_end.filter(|_| base == frame_pointer),
                    registers: registers
                        .map(|(register, rule)| (*register, rule.clone()))
                        .collect(),
                    return_address: function.cie().return_address_register(),
                });
            }
        }
    }
}
