//! The addresses of the sockets of a process, from the tables in `/proc/PID/net`.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The tables, and the parsers of their lines: first those of sockets that fibers mostly wait for.
const TABLES: [(&str, Parser); 5] = [
    ("tcp", |line| internet("tcp", line)),
    ("tcp6", |line| internet("tcp", line)),
    ("unix", unix),
    ("udp", |line| internet("udp", line)),
    ("udp6", |line| internet("udp", line)),
];

/// Returns the inode of a socket, and what is shown of it.
type Parser = fn(&str) -> Option<(u64, String)>;

/// The state of a TCP socket that listens.
const LISTENING: &str = "0A";

/// The flag of a Unix socket that listens: the kernel's `__SO_ACCEPTCON`.
const ACCEPTS: u32 = 1 << 16;

/// Returns what is shown of the sockets with these inodes. Those of other families, and of other
/// network namespaces than that of the process, are missing.
pub(crate) fn find(pid: i32, inodes: &HashSet<u64>) -> HashMap<u64, String> {
    let mut found = HashMap::new();
    for (table, parse) in TABLES {
        if found.len() == inodes.len() {
            break;
        }
        let Ok(file) = File::open(format!("/proc/{pid}/net/{table}")) else {
            continue;
        };
        // A path may be of any bytes.
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        let parsed = lines.filter_map(|line| parse(&String::from_utf8_lossy(&line)));
        found.extend(parsed.filter(|(inode, _)| inodes.contains(inode)));
    }
    found
}

/// Parses a line of the table of a protocol.
fn internet(protocol: &str, line: &str) -> Option<(u64, String)> {
    let fields: Vec<_> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, peer, state, _, _, _, _, _, inode] = fields[..] else {
        return None;
    };
    let (local, peer) = (address(local)?, address(peer)?);
    let rest = match state {
        LISTENING if protocol == "tcp" => " (listening)".to_owned(),
        _ if peer.port() == 0 => String::new(),
        _ => format!(" -> {peer}"),
    };
    Some((inode.parse().ok()?, format!("{protocol} {local}{rest}")))
}

/// Parses an address and a port: words of 32 bits in the order of the CPU, and a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for word in words.as_bytes().chunks(8) {
        let word = u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        16 => IpAddr::from(Ipv6Addr::from(*bytes.first_chunk::<16>()?)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Parses a line of the table of Unix sockets, whose path may contain spaces. One without a path is
/// shown by its inode, by which other tools find its peer.
fn unix(line: &str) -> Option<(u64, String)> {
    let mut rest = line;
    let mut fields = [""; 7];
    for field in &mut fields {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        (*field, rest) = (word, after.trim_ascii_start());
    }
    let [_, _, _, flags, _, _, inode] = fields;
    let listens = u32::from_str_radix(flags, 16).ok()? & ACCEPTS != 0;
    let inode: u64 = inode.parse().ok()?;
    let path = match rest {
        "" => format!("socket:[{inode}]"),
        path => path.replace(char::is_control, "?"),
    };
    let listens = if listens { " (listening)" } else { "" };
    Some((inode, format!("unix {path}{listens}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parsed: Option<(u64, String)>, expected: &str) {
        assert_eq!(parsed, Some((38711, expected.to_owned())));
    }

    /// On a little-endian CPU, as the crate is for x86-64.
    #[test]
    fn internet_sockets_have_addresses() {
        let rest =
            "00000000:00000000 00:00000000 00000000  1000        0 38711 1 0000000000000000 100";
        let line = |local, peer, state| format!("   7: {local} {peer} {state} {rest}");
        let tcp = |local, peer, state| internet("tcp", &line(local, peer, state));
        check(
            tcp("0100007F:1F90", "00000000:0000", "0A"),
            "tcp 127.0.0.1:8080 (listening)",
        );
        check(
            tcp("0100007F:1F90", "0202000A:D431", "01"),
            "tcp 127.0.0.1:8080 -> 10.0.2.2:54321",
        );
        check(
            tcp(
                "00000000000000000000000001000000:0050",
                "B80D0120000000000000000001000000:01BB",
                "01",
            ),
            "tcp [::1]:80 -> [2001:db8::1]:443",
        );
        let mapped = "0000000000000000FFFF00000100007F:0050";
        check(
            tcp(mapped, "00000000000000000000000000000000:0000", "07"),
            "tcp 127.0.0.1:80",
        );
        let udp = |peer, state| internet("udp", &line("0100007F:0035", peer, state));
        check(udp("00000000:0000", "07"), "udp 127.0.0.1:53");
        check(
            udp("0100007F:D431", "01"),
            "udp 127.0.0.1:53 -> 127.0.0.1:54321",
        );
        assert_eq!(
            internet(
                "tcp",
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"
            ),
            None
        );
        assert_eq!(internet("tcp", ""), None);
    }

    #[test]
    fn unix_sockets_have_paths() {
        let line =
            |flags, rest| format!("0000000000000000: 00000002 00000000 {flags} 0001 01 {rest}");
        check(
            unix(&line("00010000", "38711 /run/a socket")),
            "unix /run/a socket (listening)",
        );
        check(unix(&line("00000000", "38711 @name")), "unix @name");
        check(unix(&line("00000000", "38711")), "unix socket:[38711]");
        check(unix(&line("00000000", "38711 /a\u{1b}b")), "unix /a?b");
        assert_eq!(
            unix("Num       RefCount Protocol Flags    Type St Inode Path"),
            None
        );
    }
}
