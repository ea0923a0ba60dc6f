//! Addresses: every form `std` takes, several of them in their order, and both versions of the
//! protocol.

use std::io::{ErrorKind, Write};
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours, lacks};
use crate::support::{FREE, drain, errno, kind, refusing_socket};
use rustix::io::Errno;
use uthread::net::{TcpListener, TcpStream, ToSocketAddrs};

behaviours![(
    EVERYWHERE,
    [
        addresses_are_tried_in_their_order,
        every_form_of_an_address_is_understood,
        version_six_of_the_protocol_works_too
    ]
)];

fn addresses_are_tried_in_their_order(place: Place) {
    place.run(|| {
        let listeners = [(); 2].map(|()| TcpListener::bind(FREE).unwrap());
        let [one, other] = listeners.each_ref().map(|it| it.local_addr().unwrap());
        let (_socket, refused) = refusing_socket();
        for addresses in [
            [refused, one, other],
            [refused, other, one],
            [one, other, refused],
        ] {
            let stream = TcpStream::connect(&addresses[..]).unwrap();
            let first = addresses.into_iter().find(|it| *it != refused);
            assert_eq!(Some(stream.peer_addr().unwrap()), first);
        }
        let refusals = TcpStream::connect(&[refused, refused][..]);
        assert_eq!(errno(refusals), Errno::CONNREFUSED);

        let free = [FREE, "127.0.0.2:0"].map(|text| text.parse::<SocketAddr>().unwrap());
        for addresses in [[one, free[0], free[1]], [one, free[1], free[0]]] {
            let listener = TcpListener::bind(&addresses[..]).unwrap();
            assert_eq!(listener.local_addr().unwrap().ip(), addresses[1].ip());
        }

        let nothing: &[SocketAddr] = &[];
        assert_eq!(kind(TcpStream::connect(nothing)), ErrorKind::InvalidInput);
        assert_eq!(kind(TcpListener::bind(nothing)), ErrorKind::InvalidInput);
        assert_eq!(kind(TcpStream::connect("no port")), ErrorKind::InvalidInput);
    });
}

fn every_form_of_an_address_is_understood(place: Place) {
    fn check(address: impl ToSocketAddrs, expected: &str) {
        let expected: SocketAddr = expected.parse().unwrap();
        let mut found = address.to_socket_addrs().unwrap();
        assert!(found.any(|found| found == expected), "{expected}");
    }
    place.run(|| {
        check("127.0.0.1:80", "127.0.0.1:80");
        check("[::1]:80".to_owned(), "[::1]:80");
        check(("127.0.0.1", 80), "127.0.0.1:80");
        check(("127.0.0.1".to_owned(), 80), "127.0.0.1:80");
        check("localhost:80", "127.0.0.1:80");
        check(("localhost", 80), "127.0.0.1:80");
        check((Ipv4Addr::LOCALHOST, 80), "127.0.0.1:80");
        check((Ipv6Addr::LOCALHOST, 80), "[::1]:80");
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
        check(address, "127.0.0.1:80");
        let borrowed = &SocketAddr::from(address);
        check(borrowed, "127.0.0.1:80");
        check(&[SocketAddr::from(address)][..], "127.0.0.1:80");
    });
}

fn version_six_of_the_protocol_works_too(place: Place) {
    if net::TcpListener::bind("[::1]:0").is_err() {
        lacks("this machine has no ::1");
    }
    place.run(|| {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(address.is_ipv6());
        let mut client = TcpStream::connect(address).unwrap();
        let (server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        assert_eq!(from.ip(), Ipv6Addr::LOCALHOST);
        client.write_all(b"six").unwrap();
        drop(client);
        assert_eq!(drain(server), b"six");
    });
}
