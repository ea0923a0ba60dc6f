//! `uthread run`: which programs it takes, and how it starts them. What the library does that it
//! preloads is tested where that is.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::harness::command;

/// A library that each program has loaded anyway, so that preloading it changes nothing.
const HARMLESS: &str = "libc.so.6";

fn run(library: &Path, arguments: &[&str]) -> Output {
    let mut run = command(&["run", "--library"]);
    run.arg(library).args(arguments).output().unwrap()
}

/// Returns the path of the C library, which this process has loaded.
fn harmless() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.ends_with(HARMLESS));
    path.unwrap().to_owned()
}

fn assert_refused(output: &Output, reason: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(reason), "{errors}");
}

#[test]
fn a_program_gets_its_arguments_the_environment_and_the_library() {
    let library = harmless();
    let script = "printf '%s\\n' \"$1\" $LD_PRELOAD $UTHREAD_WORKERS $UTHREAD_DRIVER; exit 7";
    let options = [
        "--workers",
        "3",
        "--driver",
        "epoll",
        "sh",
        "-c",
        script,
        "sh",
        "--workers",
    ];
    let output = run(Path::new(&library), &options);
    assert_eq!(output.status.code(), Some(7));
    let expected = format!("--workers\n{library}\n3\nepoll\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);

    // The process that the program replaces is the one that reports.
    let script = "echo $$ $UTHREAD_STATS $UTHREAD_VERBOSE";
    let options = ["--stats", "--verbose", "sh", "-c", script];
    let output = run(Path::new(&library), &options);
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(words.len() == 3 && words[0] == words[1], "{text}");

    // What is preloaded already comes after it.
    let output = command(&[
        "run",
        "--library",
        &library,
        "/bin/sh",
        "-c",
        "echo $LD_PRELOAD",
    ])
    .env("LD_PRELOAD", "libm.so.6")
    .output()
    .unwrap();
    let expected = format!("{library}:libm.so.6\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn what_cannot_be_run_is_refused_with_a_reason() {
    let library = harmless();
    let library = Path::new(&library);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let name = program.to_str().unwrap();

    assert_refused(&run(library, &["no-such-program"]), "not found in PATH");
    assert_refused(&run(library, &[name]), "No such file");
    assert_refused(&run(&program, &["true"]), "No such file");

    fs::write(&program, "no program").unwrap();
    assert_refused(&run(library, &[name]), "neither a program");

    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    assert_refused(&run(library, &[name]), "rights of its owner");

    // What the kernel would not run, or the loader without the library.
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    fs::write(&program, "#!  \n").unwrap();
    assert_refused(&run(library, &[name]), "names no interpreter");
    fs::write(&program, "#!/no/such/interpreter -x\n").unwrap();
    assert_refused(
        &run(library, &[name]),
        "/no/such/interpreter does not exist",
    );
    fs::write(&program, format!("#!{name}\n")).unwrap();
    assert_refused(&run(library, &[name]), "is a script, too");

    let changed = |place: usize, bytes: &[u8]| {
        let mut contents = fs::read("/bin/true").unwrap();
        contents[place..place + bytes.len()].copy_from_slice(bytes);
        fs::write(&program, contents).unwrap();
    };
    let own = env!("CARGO_BIN_EXE_uthread");
    assert_refused(&run(library, &[own, "doctor"]), "uses uthread itself");

    changed(4, &[1]);
    assert_refused(&run(library, &[name]), "32-bit");
    changed(18, &183_u16.to_le_bytes());
    assert_refused(&run(library, &[name]), "another CPU");
    let contents = fs::read("/bin/true").unwrap();
    let loader = contents.windows(8).position(|part| part == b"ld-linux");
    changed(loader.unwrap(), b"ld-other");
    assert_refused(&run(library, &[name]), "not that of glibc");

    // Without the header that names the loader, which is what a static program lacks.
    let mut contents = fs::read("/bin/true").unwrap();
    let interpreter = 3_u32.to_le_bytes();
    let headers = u64::from_le_bytes(contents[32..40].try_into().unwrap()) as usize;
    let place = (headers..contents.len() - 4)
        .step_by(8)
        .find(|place| contents[*place..place + 4] == interpreter);
    let place = place.unwrap();
    contents[place..place + 4].fill(0);
    fs::write(&program, contents).unwrap();
    assert_refused(&run(library, &[name]), "linked statically");
    let script = folder.path().join("script");
    fs::write(&script, format!("#! {name} -x\n")).unwrap();
    assert_refused(
        &run(library, &[script.to_str().unwrap()]),
        "linked statically",
    );
}
