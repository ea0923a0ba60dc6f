// The service of bindings/simulation/src/first_test.rs in Go, for testing/synctest.
package payments

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Account is what the service keeps.
type Account struct {
	mutex   sync.Mutex
	balance uint64
	paid    map[uint64]uint64 // The balances after payments, by the numbers of these; nil if it forgets them.
}

func (account *Account) pay(number, amount uint64) uint64 {
	account.mutex.Lock()
	defer account.mutex.Unlock()
	if balance, ok := account.paid[number]; ok {
		return balance
	}
	account.balance += amount
	if account.paid != nil {
		account.paid[number] = account.balance
	}
	return account.balance
}

// Serve takes payments: a line with the number of a payment and an amount is answered with the balance.
func Serve(listener net.Listener, account *Account) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go serve(connection, account)
	}
}

func serve(connection net.Conn, account *Account) {
	defer connection.Close()
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		var number, amount uint64
		if _, err := fmt.Sscan(lines.Text(), &number, &amount); err != nil {
			return
		}
		if _, err := fmt.Fprintln(connection, account.pay(number, amount)); err != nil {
			return
		}
	}
}

// Dial connects to the server.
type Dial func() (net.Conn, error)

// PayTenTimes returns the balance.
func PayTenTimes(dial Dial) (uint64, error) {
	for number := range uint64(10) {
		if _, err := pay(dial, number, 1); err != nil {
			return 0, err
		}
	}
	return pay(dial, 10, 0)
}

// Pays, again if there is no answer within a second. Returns the balance.
func pay(dial Dial, number, amount uint64) (uint64, error) {
	for range 10 {
		if balance, err := tryToPay(dial, number, amount); err == nil {
			return balance, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return 0, errors.New("no answer")
}

func tryToPay(dial Dial, number, amount uint64) (balance uint64, err error) {
	connection, err := dial()
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprintln(connection, number, amount); err != nil {
		return 0, err
	}
	_, err = fmt.Fscan(connection, &balance)
	return balance, err
}
