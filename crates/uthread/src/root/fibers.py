# Fibers in gdb: `info fibers`, `fiber ID COMMAND` and `fiber apply all COMMAND`.
#
# Each program with uthread contains this script, and gdb runs it when it loads the program. It
# finds the fibers as `uthread dump` does, by the root in the section `uthread_root`. A command for
# a suspended fiber sees the fiber's stack in place of that of the selected thread: an unwinder
# continues the innermost frame of the thread with the registers that the fiber has saved. Nothing
# is written to the process, so that core files are no exception. x86-64 only.
#
# All names begin with `uthread`, as gdb runs the scripts of all programs in one namespace.

import itertools
import re
import struct

import gdb
import gdb.unwinder

UTHREAD_MAGIC = b"uthread\0"
UTHREAD_VERSION = 5

# The offsets of fields that a root lists, in its order: `Layout` in `root.rs`.
UTHREAD_LAYOUT = (
    "id spawn_site token reason top left_off cold home name limits fiber last_switch record claim"
    " descriptor scope scope_parent awaited fiber_bytes"
).split()
UTHREAD_LAYOUT_FORMAT = f"<{len(UTHREAD_LAYOUT)}I"
# What a fiber does that has a descriptor.
UTHREAD_OPERATION = "waiting for an operation"
# What a parked fiber waits for, in the low bits of a word, and the bits of its holder's address in
# the state of a lock: `Awaited` there.
UTHREAD_LOCK, UTHREAD_END, UTHREAD_THREAD = 1, 2, 3
UTHREAD_HOLDER_BITS, UTHREAD_HOLDER_SHIFT = 30, 6
# The size of a worker's entry: `Entry` there.
UTHREAD_ENTRY_BYTES = 40

# What a switch continues with, and how far below the mark of a fiber it saves registers at most.
# See `crates/uthread-dump/src/fibers.rs`.
UTHREAD_RESUMED_CODE = bytes.fromhex("55488966f0488d62085b5d")
UTHREAD_SAVED_BELOW_MAX = 1024

# More are no workers, no fibers, and no bytes of a text.
UTHREAD_WORKERS_MAX = 1 << 16
UTHREAD_FIBERS_MAX = 1 << 28
UTHREAD_TEXT_BYTES_MAX = 4096


def uthread_read(address, length):
    return gdb.selected_inferior().read_memory(address, length).tobytes()


def uthread_words(address, count):
    return struct.unpack(f"<{count}Q", uthread_read(address, 8 * count))


def uthread_half(address):
    return struct.unpack("<I", uthread_read(address, 4))[0]


def uthread_text(address, length):
    if address == 0 or length > UTHREAD_TEXT_BYTES_MAX:
        return ""
    return uthread_read(address, length).decode(errors="replace")


class UthreadSelection:
    """Selects the same thread and frame again at the end."""

    def __enter__(self):
        self.thread, self.frame = gdb.selected_thread(), gdb.selected_frame()

    def __exit__(self, *error):
        if self.thread.is_valid():
            self.thread.switch()
            if self.frame.is_valid():
                self.frame.select()


class UthreadFiber:
    """A fiber with a stack."""

    def __init__(self, layout, address, threads):
        control = uthread_read(address, layout["fiber_bytes"])

        def field(name, kind="<Q"):
            return struct.unpack_from(kind, control, layout[name])[0]

        top, self.left_off = field("top"), field("left_off") & ~7
        self.stack = range(*uthread_words(top + layout["limits"], 2))
        if uthread_words(top + layout["fiber"], 1)[0] != address:
            raise gdb.MemoryError("the stack is that of another fiber")
        # Close below the top is the address where the worker has left its own stack.
        self.parent_link = (top & ~15) - 16
        self.id, self.worker = field("id"), field("home", "<I")
        on_stack = (thread for thread, at in threads if at in self.stack)
        self.thread = next(on_stack, None)
        self.state = self.describe(field("reason", "B"), field("token", "B"))
        self.awaited = 0, 0
        if self.state == "parked":
            awaited = uthread_words(top + layout["awaited"], 1)[0]
            self.awaited = awaited & 3, awaited >> 2
        self.find_own_thread(threads)
        fd = field("descriptor", "<i")
        if self.state == UTHREAD_OPERATION and fd >= 0:
            self.state += f" on fd {fd}"
        scope, cold, site = field("scope"), field("cold"), field("spawn_site")
        self.parent = uthread_words(scope + layout["scope_parent"], 1)[0] if scope else 0
        self.name = uthread_text(*uthread_words(cold + layout["name"], 2)) if cold else ""
        line, column = struct.unpack("<II", uthread_read(site + 16, 8))
        self.spawned_at = f"{uthread_text(*uthread_words(site, 2))}:{line}:{column}"

    def __str__(self):
        name = f' "{self.name}"' if self.name else ""
        scope = f" in the scope of fiber {self.parent}" if self.parent else ""
        return f"Fiber {self.id}{name}, {self.state}, spawned at {self.spawned_at}{scope}:"

    def find_own_thread(self, threads):
        """Finds the thread of a dedicated fiber."""
        if self.awaited[0] == UTHREAD_THREAD:
            tid = uthread_half(self.awaited[1] << 2)
            own = (thread for thread, _ in threads if thread.ptid[1] == tid)
            self.thread = next(own, None)
            if self.thread is not None:
                self.state = f"on thread {self.thread.num} of its own"

    def find_awaited(self, ids):
        """Finds the fiber that it waits for, among those with these ids, by address."""
        kind, value = self.awaited
        if kind == UTHREAD_END:
            self.state += f", waiting for the end of fiber {value}"
        elif kind == UTHREAD_LOCK:
            state = uthread_half(value << 2)
            holder = state >> (32 - UTHREAD_HOLDER_BITS)
            if state & 1 and holder:
                for address, id in ids.items():
                    if (address >> UTHREAD_HOLDER_SHIFT) % (1 << UTHREAD_HOLDER_BITS) == holder:
                        self.state += f", waiting for a lock of fiber {id}"

    def describe(self, reason, token):
        if self.thread is not None:
            return f"running on thread {self.thread.num}"
        if self.left_off == 0:
            return "not begun"
        if reason == 1:
            return "parked" if token == 1 else "ready to run"
        states = {
            0: "ready to run",
            2: UTHREAD_OPERATION,
            3: "returning to a worker",
            4: "abandoned",
        }
        return states.get(reason, "in an unknown state")

    def saved(self):
        """Returns the registers that the switch has saved, and where it has saved them."""
        for at in range(self.left_off, self.left_off - UTHREAD_SAVED_BELOW_MAX, -8):
            if at not in self.stack:
                break
            code, rbx, rbp = uthread_words(at, 3)
            try:
                found = uthread_read(code, len(UTHREAD_RESUMED_CODE))
            except gdb.MemoryError:
                continue
            if found == UTHREAD_RESUMED_CODE:
                return at, {"rip": code, "rsp": at + 24, "rbp": rbp, "rbx": rbx}
        raise gdb.GdbError("its registers cannot be found on its stack")

    def execute(self, command, from_tty):
        """Executes a command that sees the stack of the fiber."""
        if self.thread is not None:
            inferior, thread = self.thread.inferior.num, self.thread.num
            gdb.execute(f"thread apply {inferior}.{thread} -q {command}", from_tty)
        elif self.left_off == 0:
            raise gdb.GdbError("it has not begun, and has no frames")
        else:
            with UthreadSelected(self):
                gdb.execute(command, from_tty)


class UthreadSelected(gdb.unwinder.Unwinder):
    """Puts the stack of a suspended fiber in place of that of the selected thread."""

    def __init__(self, fiber):
        super().__init__("uthread")
        self.fiber = fiber
        self.selection = UthreadSelection()
        # It filters frames, too, before other filters do.
        self.priority = 1 << 16

    def __enter__(self):
        self.saved_at, self.saved = self.fiber.saved()
        self.selection.__enter__()
        innermost = gdb.newest_frame()
        self.replaced = [innermost.read_register(name) for name in ("rip", "rsp")]
        try:
            gdb.frame_filters["uthread"] = self
            gdb.unwinder.register_unwinder(None, self)
            gdb.invalidate_cached_frames()
            frame = gdb.newest_frame()
            while not self.is_of_fiber(frame):
                frame = frame.older()
            frame.select()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error):
        gdb.frame_filters.pop("uthread", None)
        if self in gdb.frame_unwinders:
            gdb.frame_unwinders.remove(self)
        gdb.invalidate_cached_frames()
        self.selection.__exit__()

    def __call__(self, frame):
        """Unwinds the frame that is replaced, and the one at the base of the fiber's stack."""
        rip, rsp = frame.read_register("rip"), frame.read_register("rsp")
        if [rip, rsp] == self.replaced:
            return self.unwind(frame, rip, self.saved_at, self.saved)
        is_base = (
            int(rsp) in self.fiber.stack
            and int(frame.read_register("rbp")) == self.fiber.parent_link
            # The base calls what never returns, and has a trap after the call.
            and uthread_read(int(rip), 1) == b"\xcc"
        )
        if is_base:
            # The worker continues elsewhere meanwhile.
            return self.unwind(frame, rip, rsp, {"rip": 0, "rsp": self.fiber.stack.stop})
        return None

    def unwind(self, frame, rip, at, registers):
        def pointer(value):
            return gdb.Value(value).cast(rip.type)

        unwound = frame.create_unwind_info(UthreadFrameId(pointer(at), rip))
        for name, value in registers.items():
            unwound.add_saved_register(name, pointer(value))
        return unwound

    def filter(self, frames):
        """Hides the frames that are not of the fiber."""

        def is_other(frame):
            return not self.is_of_fiber(frame.inferior_frame())

        inner = itertools.dropwhile(is_other, frames)
        return itertools.takewhile(lambda frame: not is_other(frame), inner)

    def is_of_fiber(self, frame):
        return int(frame.read_register("rsp")) in self.fiber.stack


class UthreadFrameId:
    """What gdb tells a frame from others by."""

    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


def uthread_roots():
    """Returns the addresses of the roots of all versions of the library."""
    for line in gdb.execute("info files", to_string=True).splitlines():
        section = re.match(r"\s*(0x\w+) - (0x\w+) is uthread_root\b", line)
        if section is None:
            continue
        at, end = (int(address, 16) for address in section.groups())
        while at < end:
            magic, version, length = struct.unpack("<8sII", uthread_read(at, 16))
            if magic != UTHREAD_MAGIC:
                raise gdb.GdbError(
                    "the section uthread_root has no root: is the file that of the process?"
                )
            if version != UTHREAD_VERSION:
                raise gdb.GdbError(
                    f"the program's uthread has layout {version}, and this script knows"
                    f" layout {UTHREAD_VERSION}: source the script of the program's version"
                )
            yield at
            at += length


def uthread_addresses():
    """Returns the address of each fiber, and the offsets of its fields."""
    for root in uthread_roots():
        layout_bytes = struct.calcsize(UTHREAD_LAYOUT_FORMAT)
        offsets = struct.unpack(UTHREAD_LAYOUT_FORMAT, uthread_read(root + 16, layout_bytes))
        layout = dict(zip(UTHREAD_LAYOUT, offsets))
        # On the next multiple of eight.
        changes, entries, count = uthread_words(root + 16 + (layout_bytes + 7) // 8 * 8, 3)
        if changes % 2 or count > UTHREAD_WORKERS_MAX:
            raise gdb.GdbError("a worker starts or ends right now: continue, and try again")
        for index in range(count):
            entry = entries + index * UTHREAD_ENTRY_BYTES
            fibers, _, worker = uthread_words(entry, 3)
            words = uthread_words(fibers, 3)
            if min(words) > UTHREAD_FIBERS_MAX:
                print(f"The list of the fibers of worker {worker} is being changed.")
                continue
            for address in uthread_words(max(words), min(words)):
                yield layout, address


def uthread_threads():
    """Returns each thread with its stack pointer, and also with the one before a signal, whose
    handler may have a stack of its own."""
    threads = []
    with UthreadSelection():
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            try:
                frame = gdb.newest_frame()
                threads.append((thread, int(frame.read_register("rsp"))))
                while frame is not None and frame.type() != gdb.SIGTRAMP_FRAME:
                    frame = frame.older()
                if frame is not None and frame.older() is not None:
                    threads.append((thread, int(frame.older().read_register("rsp"))))
            except gdb.error:
                # Its stack cannot be unwound. Or it is thread-local storage of a fiber, which is a
                # thread without registers to gdb in a core file.
                pass
    return threads


def uthread_fibers(wanted=None):
    """Returns all fibers, or the one with this id."""
    inferior = gdb.selected_inferior()
    if gdb.selected_thread() is None:
        raise gdb.GdbError("there is neither a process nor a core file")
    if inferior.architecture().name() != "i386:x86-64":
        raise gdb.GdbError("fibers are shown on x86-64 only")
    if not all(thread.is_stopped() for thread in inferior.threads()):
        raise gdb.GdbError("some threads run: interrupt all of them first")
    threads = uthread_threads()
    ids, fibers, missing = {}, [], 0
    for layout, address in uthread_addresses():
        try:
            ids[address] = uthread_words(address + layout["id"], 1)[0]
            if wanted in (None, ids[address]):
                fibers.append(UthreadFiber(layout, address, threads))
        except gdb.MemoryError:
            missing += 1
    for fiber in fibers:
        fiber.find_awaited(ids)
    if missing:
        print(f"Missing, since they start or end right now: {missing} fibers.")
    return sorted(fibers, key=lambda fiber: fiber.id)


class UthreadInfo(gdb.Command):
    """Show the fibers of the process.

Usage: info fibers

`fiber ID bt` shows where a fiber is, and `fiber apply all bt` where all of them are."""

    def __init__(self):
        super().__init__("info fibers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        rows = [("Id", "Worker", "State", "Name", "Spawned at")]
        for fiber in uthread_fibers():
            row = (str(fiber.id), str(fiber.worker), fiber.state, fiber.name, fiber.spawned_at)
            rows.append(row)
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            print("  ".join(map(str.ljust, row, widths)).rstrip())


class UthreadCommand(gdb.Command):
    """Execute a command that sees the stack of a fiber.

Usage: fiber ID COMMAND
       fiber apply all COMMAND

As `thread apply` does, it selects what was selected before again. `info fibers` lists the ids.

    fiber 130 bt
    fiber 130 frame apply level 4 info locals
    fiber apply all bt 8

The frame numbers of a suspended fiber begin at 1: number 0 is that of the selected thread."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        one = re.fullmatch(r"(\d+)\s+(.+)", argument.strip())
        every = re.fullmatch(r"apply\s+all\s+(.+)", argument.strip())
        if one:
            fibers, command = uthread_fibers(int(one[1])), one[2]
            if not fibers:
                raise gdb.GdbError(f"there is no fiber {one[1]}: `info fibers` lists them")
        elif every:
            fibers, command = uthread_fibers(), every[1]
        else:
            raise gdb.GdbError("Usage: fiber ID COMMAND, or fiber apply all COMMAND")
        for fiber in fibers:
            print(f"\n{fiber}")
            try:
                fiber.execute(command, from_tty)
            except (gdb.error, gdb.GdbError) as error:
                if one:
                    raise
                print(error)


UthreadInfo()
UthreadCommand()
