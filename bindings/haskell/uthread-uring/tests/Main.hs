-- | The tests run on each driver. What the kernel refuses is skipped, with a word.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.List (isInfixOf)
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eBADF, eINVAL)
import Foreign.Marshal.Array (peekArray, pokeArray)
import Foreign.Ptr (plusPtr)
import GHC.IO.Exception (IOException (..))
import qualified Network.Socket as Socket
import System.Directory (listDirectory, removeFile)
import System.Environment (setEnv)
import System.IO (hClose, hPutStrLn, openTempFile, stderr)
import System.Mem (performMajorGC)
import System.Posix.IO (closeFd, createPipe, fdWrite)
import System.Posix.Types (Fd (..))
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

import UThread.Ring
import qualified UThread.Ring.Request as Request
import qualified UThread.Ring.Wait as Wait

main :: IO ()
main = do
  uring <- try (withManager defaultOptions {driver = Uring} supportsIOURing) :: IO (Either IOException Bool)
  when (uring /= Right True) $ hPutStrLn stderr "not checked: io_uring, which the kernel refuses"
  let polled = ("kernel polling", defaultOptions {driver = Uring, kernelPollingMs = Just 10})
      rings = [("uring", defaultOptions {driver = Uring}), polled]
      drivers = [ring | uring == Right True, ring <- rings] ++ [("epoll", defaultOptions {driver = Epoll})]
  -- One at a time: some of them count what the process has open.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain $
    testGroup "uthread-uring" $
      [testGroup name (map ($ options) tests) | (name, options) <- drivers]
        ++ [testCase "waits of other libraries are in a shared ring" (bounded waitsAreShared)]

-- | A wait that ends: a lost completion fails the test, and does not hang it.
bounded :: IO a -> IO a
bounded action = timeout 30000000 action >>= maybe (fail "a request has not ended within 30 s") pure

tests :: [Options -> TestTree]
tests =
  [ test "files are written and read" filesAreWrittenAndRead
  , test "registered files and memory are used" registeredFiles
  , test "connections without a descriptor are echoed" registeredConnections
  , test "interrupted accepts leave no slot in use" registeredAcceptsAreUndone
  , test "an error has its errno" errorsHaveTheirErrno
  , test "a sleep ends" $ \manager -> submitBlocking manager (Request.sleep 1000)
  , test "any request can be made" anyRequestCanBeMade
  , test "a chain runs in its order" chainsRunInOrder
  , test "connections are accepted and echoed" connectionsAreEchoed
  , test "a stream takes what arrives without copies" receivedBytesAreViews
  , test "a stream waits while nobody takes" streamsAreBounded
  , test "an interrupted wait for an item loses none" interruptedStreamsGoOn
  , test "a timeout cancels a read" timeoutsCancel
  , test "interrupted accepts leave no descriptor" acceptsAreUndone
  , test "many threads submit at once" manyThreadsSubmit
  , \options -> testCase "threads may outlive the manager" (bounded (managersEnd options))
  , always "no request survives an exception" requestsDoNotSurvive
  ]
  where
    test name body options = testCase name . bounded $ withManager options body
    always name body options = testProperty name (body options)

withPipe :: ((Fd, Fd) -> IO a) -> IO a
withPipe = bracket createPipe (\(from, to) -> closeFd from >> closeFd to)

waitsAreShared :: Assertion
waitsAreShared = do
  withPipe $ \(from, to) -> do
    ready <- newEmptyMVar
    _ <- forkIO (Wait.threadWaitRead from >> putMVar ready ())
    early <- timeout 20000 (takeMVar ready)
    early @?= Nothing
    Wait.threadWaitWrite to
    _ <- fdWrite to "x"
    takeMVar ready
    cancelled <- withPipe (timeout 20000 . Wait.threadWaitRead . fst)
    cancelled @?= Nothing
  found <- errnoOf (Wait.threadWaitRead (Fd (-1)))
  assertBool "EBADF" (found == Just eBADF)

filesAreWrittenAndRead :: Manager -> Assertion
filesAreWrittenAndRead manager = bracket temporary removeFile $ \path -> do
  let create = 0o2 + 0o100 + 0o1000 -- O_RDWR, O_CREAT and O_TRUNC
  file <- submitBlocking manager (Request.openFile (Char8.pack path) create 0o600)
  written <- submitBlocking manager (Request.writeAt file (Request.At 0) (Char8.pack "some text"))
  written @?= 9
  submitBlocking manager (Request.sync file)
  text <- submitBlocking manager (Request.readAt file (Request.At 5) 100)
  text @?= Char8.pack "text"
  end <- submitBlocking manager (Request.readAt file (Request.At 9) 100)
  end @?= ByteString.empty
  submitBlocking manager (Request.close file)
  where
    temporary = do
      (path, file) <- openTempFile "/tmp" "uthread-uring"
      path <$ hClose file

registeredFiles :: Manager -> Assertion
registeredFiles manager = bracket (openTempFile "/tmp" "uthread-uring") (removeFile . fst) $ \(path, file) -> do
  hClose file
  fd <- submitBlocking manager (Request.openFile (Char8.pack path) 2 0) -- O_RDWR
  withRegisteredFile manager fd $ \registered -> withRegisteredMemory manager 8192 $ \memory -> do
    bytes <- memoryBytes memory
    pokeArray bytes [1 .. 10]
    written <- writeRegistered manager registered bytes 10 5
    written @?= 10
    let copy = (bytes `plusPtr` 4096) `asTypeOf` bytes
    count <- readRegistered manager registered copy 4096 0
    found <- peekArray 16 copy
    (count, found) @?= (15, replicate 5 0 ++ [1 .. 10] ++ [0])

-- | More than there are slots, so that the last two have descriptors.
registeredConnections :: Manager -> Assertion
registeredConnections manager = withListener $ \listener address -> withTable manager 2 $ \table -> do
  hasRing <- supportsIOURing manager
  forM_ [1 .. 3 :: Int] $ \_ -> do
    clients <- replicateM 4 (Socket.socket Socket.AF_INET Socket.Stream 0)
    mapM_ (`Socket.connect` address) clients
    before <- openDescriptors
    connections <- replicateM 4 (acceptRegistered table listener)
    with <- openDescriptors
    with - before @?= if hasRing then 2 else 4
    forM_ (zip3 clients connections ["a", "bc", "def", "ghij"]) $ \(client, connection, text) -> do
      echoed <- begin (receiveRegistered connection 100 >>= sendRegistered connection)
      Socket.withFdSocket client setBlocking
      let submit make = Socket.withFdSocket client (submitBlocking manager . make . Fd)
      sent <- submit (`Request.send` Char8.pack text)
      takeMVar echoed
      answer <- submit (`Request.receive` 100)
      (sent, answer) @?= (length text, Char8.pack text)
      closeRegistered connection
      closeRegistered connection
      end <- submit (`Request.receive` 100)
      end @?= ByteString.empty
      found <- errnoOf (receiveRegistered connection 1)
      assertBool "EBADF" (found == Just eBADF)
    mapM_ Socket.close clients

-- | The connection of an interrupted accept is closed, or left in the queue, and the slot is free again.
registeredAcceptsAreUndone :: Manager -> Assertion
registeredAcceptsAreUndone manager = withListener $ \listener address -> withTable manager 1 $ \table -> do
  hasRing <- supportsIOURing manager
  forM_ [1 .. 200 :: Int] $ \round' -> connectTo address $ \client -> do
    end <- Socket.withFdSocket client $ \fd -> begin (setBlocking fd >> submitBlocking manager (Request.receive (Fd fd) 1))
    let accept' delay = do
          accepted <- newIORef Nothing
          -- Masked, as an exception may also come between the result and its use.
          _ <- timeout delay (mask_ (acceptRegistered table listener >>= writeIORef accepted . Just))
          readIORef accepted >>= mapM_ closeRegistered
        settle = tryTakeMVar end >>= maybe (accept' 2000 >> settle) (@?= ByteString.empty)
    accept' (round' `mod` 20 * 10)
    settle
  connectTo address $ \_ -> do
    before <- openDescriptors
    connection <- acceptRegistered table listener
    with <- openDescriptors
    with - before @?= if hasRing then 0 else 1
    closeRegistered connection

errnoOf :: IO a -> IO (Maybe Errno)
errnoOf action = either (fmap Errno . ioe_errno) (const Nothing) <$> try action

errorsHaveTheirErrno :: Manager -> Assertion
errorsHaveTheirErrno manager = do
  found <- errnoOf (submitBlocking manager (Request.close (-1)))
  assertBool "EBADF" (found == Just eBADF)
  missing <- try (submitBlocking manager (Request.openFile (Char8.pack "/missing") 0 0)) :: IO (Either IOException Fd)
  assertBool "the name of the call" (either (("open" `isInfixOf`) . show) (const False) missing)

-- | A raw entry, which the manager passes on.
anyRequestCanBeMade :: Manager -> Assertion
anyRequestCanBeMade manager = do
  result <- submitBlocking manager (Request.request "nop" (`Request.setOpcode` 0))
  result @?= 0
  found <- errnoOf (submitBlocking manager (Request.request "unknown" (`Request.setOpcode` 255)))
  hasRing <- supportsIOURing manager
  when hasRing $ assertBool "EINVAL" (found == Just eINVAL)
  assertBool "an error" (found /= Nothing)

chainsRunInOrder :: Manager -> Assertion
chainsRunInOrder manager = withPipe $ \(from, to) -> do
  let write bytes = ByteString.empty <$ Request.writeAt to Request.Position bytes
      text = ByteString.pack [1, 2, 3]
      results = map (either (const (Left ())) Right)
  done <- submitChain manager [write text, Request.readAt from Request.Position 3, ByteString.empty <$ Request.nop]
  results done @?= [Right ByteString.empty, Right text, Right ByteString.empty]
  -- The rest of a chain that fails is not performed.
  failed <- submitChain manager [ByteString.empty <$ Request.sync (Fd (-1)), write text]
  results failed @?= [Left (), Left ()]
  -- One that is interrupted is cancelled: nothing was written, and nothing is read any more.
  interrupted <- timeout 20000 (submitChain manager [Request.readAt from Request.Position 3, write text])
  assertBool "it has not ended" (maybe True (const False) interrupted)
  _ <- submitBlocking manager (write (ByteString.pack [9]))
  read' <- submitBlocking manager (Request.readAt from Request.Position 3)
  read' @?= ByteString.pack [9]
  empty <- submitChain manager ([] :: [Request ()])
  length empty @?= 0

-- | A listening socket that is blocking, as the requests need it.
withListener :: (Fd -> Socket.SockAddr -> IO a) -> IO a
withListener action = bracket (Socket.socket Socket.AF_INET Socket.Stream 0) Socket.close $ \socket -> do
  Socket.bind socket (Socket.SockAddrInet 0 (Socket.tupleToHostAddress (127, 0, 0, 1)))
  Socket.listen socket 128
  address <- Socket.getSocketName socket
  Socket.withFdSocket socket $ \fd -> setBlocking fd >> action (Fd fd) address

connectTo :: Socket.SockAddr -> (Socket.Socket -> IO a) -> IO a
connectTo address action = bracket (Socket.socket Socket.AF_INET Socket.Stream 0) Socket.close $ \socket ->
  Socket.connect socket address >> action socket

connectionsAreEchoed :: Manager -> Assertion
connectionsAreEchoed manager = withListener $ \listener address ->
  withMultishot manager (accepting listener) 16 $ \connections -> do
    acceptor <- begin . replicateM 20 $ do
      connection <- next connections
      maybe (fail "the stream has ended") (\fd -> begin (echo fd)) connection
    answers <- replicateM 20 . begin . connectTo address $ \socket -> Socket.withFdSocket socket $ \fd -> do
      setBlocking fd
      sent <- submitBlocking manager (Request.send (Fd fd) text)
      answer <- submitBlocking manager (Request.receive (Fd fd) 100)
      pure (sent == ByteString.length text && answer == text)
    echoed <- mapM takeMVar answers
    assertBool "all were echoed" (and echoed)
    takeMVar acceptor >>= mapM_ takeMVar
  where
    text = Char8.pack "a message"
    echo fd = do
      bytes <- submitBlocking manager (Request.receive fd 100)
      if ByteString.null bytes
        then submitBlocking manager (Request.close fd)
        else submitBlocking manager (Request.send fd bytes) >> echo fd

-- | Runs an action on a thread. Whoever takes its result waits for it.
begin :: IO a -> IO (MVar a)
begin action = do
  result <- newEmptyMVar
  result <$ forkIO (action >>= putMVar result)

-- | More chunks are kept than there are buffers, and all of them are intact; afterwards the buffers come back.
receivedBytesAreViews :: Manager -> Assertion
receivedBytesAreViews manager = withBuffers 8 64 $ \buffers -> forM_ [1 .. 3 :: Int] $ \_ ->
  withListener $ \listener address -> connectTo address $ \client -> do
    server <- submitBlocking manager (Request.accept listener)
    kept <- newIORef []
    Socket.withFdSocket client $ \fd -> withMultishot manager (receiving (Fd fd) buffers) 64 $ \chunks -> do
      setBlocking fd
      let texts = [Char8.replicate 64 letter | letter <- ['a' .. 'z']]
      forM_ texts $ \text -> submitBlocking manager (Request.send server text)
      submitBlocking manager (Request.shutdown server 1)
      let loop = next chunks >>= mapM_ (\chunk -> modifyIORef kept (chunk :) >> loop)
      loop
      received <- ByteString.concat . reverse <$> readIORef kept
      received @?= ByteString.concat texts
    submitBlocking manager (Request.close server)
    writeIORef kept []
    performMajorGC

streamsAreBounded :: Manager -> Assertion
streamsAreBounded manager = withListener $ \listener address ->
  withMultishot manager (accepting listener) 1 $ \connections -> do
    clients <- replicateM 5 (Socket.socket Socket.AF_INET Socket.Stream 0)
    mapM_ (`Socket.connect` address) clients
    accepted <- replicateM 5 (next connections)
    forM_ accepted $ mapM_ (submitBlocking manager . Request.close)
    length [() | Just _ <- accepted] @?= 5
    mapM_ Socket.close clients

interruptedStreamsGoOn :: Manager -> Assertion
interruptedStreamsGoOn manager = withListener $ \listener address ->
  withMultishot manager (accepting listener) 4 $ \connections -> do
    nothing <- replicateM 20 (timeout 100 (next connections))
    assertBool "nobody has come" (all (== Nothing) (fmap void nothing))
    connectTo address $ \_ -> next connections >>= mapM_ (submitBlocking manager . Request.close)

timeoutsCancel :: Manager -> Assertion
timeoutsCancel manager = withPipe $ \(from, to) -> do
  nothing <- timeout 1000 (submitBlocking manager (Request.readAt from Request.Position 1))
  nothing @?= Nothing
  _ <- submitBlocking manager (Request.writeAt to Request.Position (Char8.pack "x"))
  byte <- submitBlocking manager (Request.readAt from Request.Position 1)
  byte @?= Char8.pack "x"

openDescriptors :: IO Int
openDescriptors = length <$> listDirectory "/proc/self/fd"

acceptsAreUndone :: Manager -> Assertion
acceptsAreUndone manager = withListener $ \listener address -> do
  -- The runtime of GHC opens some of its own at their first use.
  interrupt listener address
  before <- openDescriptors
  interrupt listener address
  left <- openDescriptors
  assertBool (show before ++ " descriptors, then " ++ show left) (left <= before + 2)
  where
    interrupt listener address = forM_ [1 .. 200 :: Int] $ \round' -> connectTo address $ \_ -> do
      -- Masked, as an exception may also come between the result and its use.
      accepted <- newIORef Nothing
      let wait = mask_ (submitBlocking manager (Request.accept listener) >>= writeIORef accepted . Just)
      _ <- timeout (round' `mod` 20 * 10) wait
      first <- readIORef accepted
      -- What nobody has accepted is left in the queue.
      when (first == Nothing) . void $ timeout 2000 wait
      connection <- readIORef accepted
      mapM_ (submitBlocking manager . Request.close) connection

manyThreadsSubmit :: Manager -> Assertion
manyThreadsSubmit manager = do
  ended <- replicateM 200 (begin (replicateM_ 100 (submitBlocking manager Request.nop)))
  mapM_ takeMVar ended

-- | What they submit afterwards is cancelled.
managersEnd :: Options -> Assertion
managersEnd options = withPipe $ \(from, _) -> do
  outliving <- withManager options $ \manager -> do
    busy <- replicateM 20 . begin $ try (forever (submitBlocking manager Request.nop))
    waiting <- replicateM 20 . begin . try $ void (submitBlocking manager (Request.readAt from Request.Position 1))
    threadDelay 1000
    pure (busy ++ waiting)
  ends <- mapM takeMVar outliving
  let isError = either (const True :: IOException -> Bool) (const False)
  assertBool "each has got an error" (all isError ends)

-- | A read that its thread has left would take the byte that is written afterwards, and write it into memory that is free.
requestsDoNotSurvive :: Options -> [Positive Int] -> Property
requestsDoNotSurvive options delays = ioProperty . bounded . withManager options $ \manager -> do
  ended <- forM delays $ \(Positive delay) -> do
    done <- newEmptyMVar
    _ <- forkIO . withPipe $ \(from, to) -> do
      reader <- newEmptyMVar
      thread <- mask_ $ forkIOWithUnmask $ \unmask ->
        try (unmask (submitBlocking manager (Request.readAt from Request.Position 1))) >>= putMVar reader
      threadDelay (delay * 20)
      killThread thread
      outcome <- takeMVar reader
      _ <- submitBlocking manager (Request.writeAt to Request.Position (Char8.pack "x"))
      byte <- submitBlocking manager (Request.readAt from Request.Position 1)
      putMVar done (outcome == Left ThreadKilled && byte == Char8.pack "x")
    pure done
  and <$> mapM takeMVar ended

setBlocking :: (Integral fd) => fd -> IO ()
setBlocking fd = void (c_fcntl (fromIntegral fd) 4 (0 :: Word32)) -- F_SETFL

foreign import ccall unsafe "fcntl"
  c_fcntl :: Int -> Int -> Word32 -> IO Int
