//! Pictures of runs.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use uthread_simulation::World;

use crate::drivers::on_each_driver;
use crate::seeds::run;
use crate::servers;
use crate::times::MS;

const TEST: &str = "timeline::everything_goes_wrong";

/// A client with a name that XML has to escape, and two servers to which all happens that a picture shows.
#[uthread::test(virtual_time, seeds = 1)]
#[ignore = "fails on purpose, as a part of another test"]
fn everything_goes_wrong() {
    let world = World::new().unwrap();
    world.links().set_latency(2 * MS..8 * MS);
    let [one, two] = ["one", "two"].map(|name| world.host(name, servers::echo));
    uthread::sleep(MS);
    world.host("a <client> & more", || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        loop {
            for server in ["one:7000", "two:7000"] {
                let ask = || {
                    let mut stream = TcpStream::connect(server)?;
                    stream.write_all(b"1")?;
                    stream.read_exact(&mut [0])
                };
                let _ = uthread::time::try_timeout(20 * MS, ask);
                socket.send_to(b"datagram", server)?;
            }
            uthread::sleep(5 * MS);
        }
    });
    let pause = || uthread::sleep(60 * MS);
    pause();
    one.crash();
    pause();
    one.restart();
    pause();
    two.pause();
    pause();
    two.resume();
    world.between(&["one"], &["a <client> & more", "two"]).cut();
    pause();
    world.links().heal();
    world.link("two", "one").cut();
    world.links().set_loss(0.3);
    pause();
    world.links().reset();
    two.set_clock_drift(200);
    pause();
    let _panics = world.host("three", || panic!("on purpose"));
    uthread::sleep(30 * MS);
    panic!("the test has seen enough");
}

/// Returns the picture of a run that fails, and its output.
fn picture(variables: &[(&str, &str)]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.svg");
    let mut all = vec![("UTHREAD_TIMELINE", path.to_str().unwrap())];
    all.extend(variables);
    let (passed, output) = run(TEST, &all);
    assert!(!passed);
    let said = format!("uthread: {} shows them", path.display());
    assert!(output.contains(&said), "{output}");
    (std::fs::read_to_string(path).unwrap(), output)
}

fn assert_is_xml(picture: &str) {
    assert!(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    let mut open = Vec::new();
    for part in picture.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text}");
        let name = tag.split(' ').next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn a_failing_run_is_drawn_if_a_variable_names_a_file() {
    let (whole, output) = picture(&[("UTHREAD_TIMELINE_EVENTS", "100000")]);
    assert_is_xml(&whole);
    let count = |text: &str| whole.matches(text).count();
    for (text, times) in [
        (">a &lt;client&gt; &amp; more</text>", 1),
        (">one</text>", 1),
        (">one: crashes (1)</text>", 1),
        ("<title>down for ", 1),
        (">two: pauses (2)</text>", 1),
        ("<title>paused for ", 1),
        (
            ">one - two, one - a &lt;client&gt; &amp; more: cut (3)</text>",
            1,
        ),
        (">two -&gt; one: cut (4)</text>", 1),
        (">all links: loss 0.3</text>", 1),
        (">three: panics</text>", 1),
        (">fails</text>", 1),
    ] {
        assert_eq!(count(text), times, "{text}");
    }
    assert_eq!(
        count("<title>to "),
        0,
        "it is not known when a message was sent"
    );
    // Each of these is told in the trace as well.
    for text in [
        "B, arrives<",
        "B, arrives late (fault ",
        "B, is lost",
        ": connects to port 7000<",
    ] {
        assert!(count(text) > 0, "{text}");
    }
    assert!(
        output.contains("three: panics") && output.contains("two: resumes"),
        "{output}"
    );
    let again = picture(&[("UTHREAD_TIMELINE_EVENTS", "100000")]).0;
    assert!(whole == again, "the same seed draws another picture");
}

#[test]
fn a_picture_shows_the_last_events() {
    let (picture, _) = picture(&[("UTHREAD_TIMELINE_EVENTS", "50")]);
    assert_is_xml(&picture);
    assert!(picture.contains("<title>50 of "), "{picture}");
    assert!(!picture.contains("one: crashes") && picture.contains(">fails</text>"));
}

#[test]
fn a_failing_run_names_the_variable() {
    let (passed, output) = run(TEST, &[]);
    assert!(
        !passed && output.contains("UTHREAD_TIMELINE=run.svg draws them"),
        "{output}"
    );
    let missing = [("UTHREAD_TIMELINE", "/missing/run.svg")];
    let (passed, output) = run(TEST, &missing);
    let error = "uthread: /missing/run.svg cannot be written: No such file or directory";
    assert!(!passed && output.contains(error), "{output}");
}

#[test]
fn a_test_draws_what_it_has_done() {
    on_each_driver(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.svg");
        let world = World::new().unwrap();
        world.write_timeline(&path, 300).unwrap();
        assert_is_xml(&std::fs::read_to_string(&path).unwrap());
        world.host("only", || Ok(())).wait().unwrap();
        for events_max in [0, 1, 300] {
            world.write_timeline(&path, events_max).unwrap();
            let picture = std::fs::read_to_string(&path).unwrap();
            assert_is_xml(&picture);
            assert!(picture.contains(&format!("<title>{events_max} of ")) || events_max == 300);
            assert_eq!(picture.contains("only: ends"), events_max == 300);
            assert!(!picture.contains("fails"));
        }
    });
}
