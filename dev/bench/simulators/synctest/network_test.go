package payments

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// network is a listener and a dialer. Bytes take their time from one net.Pipe to another, as synctest has no sockets.
type network struct {
	accepted chan net.Conn
	isCut    atomic.Bool // From the server to the client.
	mutex    sync.Mutex
	random   *rand.Rand
}

func newNetwork(seed uint64) *network {
	return &network{accepted: make(chan net.Conn), random: rand.New(rand.NewPCG(seed, 0))}
}

func (network *network) dial() (net.Conn, error) {
	client, clientEnd := net.Pipe()
	server, serverEnd := net.Pipe()
	go network.carry(clientEnd, serverEnd, func() bool { return false })
	go network.carry(serverEnd, clientEnd, network.isCut.Load)
	network.accepted <- server
	return client, nil
}

func (network *network) carry(from, to net.Conn, isCut func() bool) {
	defer to.Close()
	buffer := make([]byte, 4096)
	for {
		count, err := from.Read(buffer)
		time.Sleep(network.latency())
		if err != nil {
			return
		}
		if !isCut() {
			to.Write(buffer[:count])
		}
	}
}

func (network *network) latency() time.Duration {
	network.mutex.Lock()
	defer network.mutex.Unlock()
	return time.Millisecond + time.Duration(network.random.Int64N(int64(99*time.Millisecond)))
}

func (network *network) Accept() (net.Conn, error) {
	if connection, ok := <-network.accepted; ok {
		return connection, nil
	}
	return nil, net.ErrClosed
}

func (network *network) Close() error   { close(network.accepted); return nil }
func (network *network) Addr() net.Addr { return &net.TCPAddr{Port: 7000} }
