//! Options of UDP sockets, and their effects on broadcast and multicast.

use std::net::{self, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours, lacks};
use crate::support::{FREE, errno};
use rustix::io::Errno;
use rustix::net::sockopt;
use uthread::net::UdpSocket;

behaviours![(
    EVERYWHERE,
    [
        options_are_those_of_the_socket,
        a_network_is_reached_by_permission_alone,
        groups_of_version_four_are_joined_and_left,
        groups_of_version_six_are_joined_and_left
    ]
)];

fn bound() -> UdpSocket {
    UdpSocket::bind(FREE).unwrap()
}

fn options_are_those_of_the_socket(place: Place) {
    place.run(|| {
        let ours = bound();
        for on in [true, false] {
            ours.set_broadcast(on).unwrap();
            assert_eq!(ours.broadcast().unwrap(), on);
            assert_eq!(sockopt::socket_broadcast(&ours).unwrap(), on);
            ours.set_multicast_loop_v4(on).unwrap();
            assert_eq!(ours.multicast_loop_v4().unwrap(), on);
        }
        ours.set_ttl(42).unwrap();
        ours.set_multicast_ttl_v4(43).unwrap();
        let ttls = (ours.ttl().unwrap(), ours.multicast_ttl_v4().unwrap());
        assert_eq!(ttls, (42, 43));
        ours.set_recv_buffer_size(20_000).unwrap();
        ours.set_send_buffer_size(30_000).unwrap();
        let sizes = (
            ours.recv_buffer_size().unwrap(),
            ours.send_buffer_size().unwrap(),
        );
        assert_eq!(sizes, (40_000, 60_000));
        assert!(ours.take_error().unwrap().is_none());
    });
}

fn a_network_is_reached_by_permission_alone(place: Place) {
    place.run(|| {
        let ours = bound();
        let everybody = (Ipv4Addr::new(127, 255, 255, 255), 9);
        assert_eq!(errno(ours.send_to(b"all", everybody)), Errno::ACCESS);
        ours.set_broadcast(true).unwrap();
        assert_eq!(ours.send_to(b"all", everybody).unwrap(), 3);
    });
}

fn groups_of_version_four_are_joined_and_left(place: Place) {
    // One group for each trial: a socket bound to every address receives the groups of others, too.
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let group = Ipv4Addr::new(239, 255, 77, NEXT.fetch_add(1, Ordering::Relaxed));
    place.run(|| {
        let here = Ipv4Addr::LOCALHOST;
        let member = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = member.local_addr().unwrap().port();
        let sender = bound();
        sockopt::set_ip_multicast_if(&sender, &here).unwrap();
        let send = |text: &[u8], address| sender.send_to(text, (address, port)).unwrap();
        let mut buffer = [0; 20];
        member.join_multicast_v4(&group, &here).unwrap();
        let received = place.meanwhile(
            || member.recv(&mut [0; 20]),
            || assert_eq!(send(b"all", group), 3),
        );
        assert_eq!(received.unwrap(), 3);
        member.leave_multicast_v4(&group, &here).unwrap();
        send(b"not you", group);
        send(b"you", here);
        assert_eq!(member.recv(&mut buffer).unwrap(), 3);
        let again = member.leave_multicast_v4(&group, &here);
        assert_eq!(errno(again), Errno::ADDRNOTAVAIL);
        let nobody = member.join_multicast_v4(&here, &here);
        assert_eq!(errno(nobody), Errno::INVAL);
    });
}

fn groups_of_version_six_are_joined_and_left(place: Place) {
    if net::UdpSocket::bind("[::1]:0").is_err() {
        lacks("this machine has no ::1");
    }
    place.run(|| {
        let ours = UdpSocket::bind("[::1]:0").unwrap();
        let group: Ipv6Addr = "ff02::7777".parse().unwrap();
        let loopback = rustix::net::netdevice::name_to_index(&ours, "lo").unwrap();
        ours.join_multicast_v6(&group, loopback).unwrap();
        ours.leave_multicast_v6(&group, loopback).unwrap();
        let again = ours.leave_multicast_v6(&group, loopback);
        assert_eq!(errno(again), Errno::ADDRNOTAVAIL);
        for on in [false, true] {
            ours.set_multicast_loop_v6(on).unwrap();
            assert_eq!(ours.multicast_loop_v6().unwrap(), on);
        }
    });
}
