module uthread/simulators/synctest

go 1.26
