package payments

import (
	"testing"
	"testing/synctest"
	"time"
)

// Runs a server, and a client whose answers are lost for a while. Returns what the client finds.
func withACutLink(t *testing.T, seed uint64, account *Account) (balance uint64) {
	synctest.Test(t, func(t *testing.T) {
		network := newNetwork(seed)
		go Serve(network, account)
		done := make(chan error)
		go func() {
			var err error
			balance, err = PayTenTimes(network.dial)
			done <- err
		}()
		time.Sleep(time.Second)
		network.isCut.Store(true)
		time.Sleep(3 * time.Second)
		network.isCut.Store(false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		network.Close()
		time.Sleep(time.Second) // Each goroutine of a bubble has to end, and time stops with the test.
	})
	return balance
}

func TestSomeSeedFindsAPaymentThatCountsTwice(t *testing.T) {
	for seed := range uint64(10) {
		if withACutLink(t, seed, &Account{}) != 10 {
			return
		}
	}
	t.Fatal("no seed finds it")
}

func TestEachNumberedPaymentCountsOnce(t *testing.T) {
	for seed := range uint64(100) {
		balance := withACutLink(t, seed, &Account{paid: map[uint64]uint64{}})
		if balance != 10 {
			t.Fatalf("seed %d: the balance is %d", seed, balance)
		}
	}
}
