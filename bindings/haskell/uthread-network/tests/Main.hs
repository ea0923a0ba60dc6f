{-# LANGUAGE OverloadedStrings #-}

-- | Sockets and files on each driver. What the kernel refuses is skipped, with a word.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peek, pokeByteOff)
import System.Directory (removeFile)
import System.IO (hClose, hPutStrLn, openTempFile, stderr)
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit

import qualified Network.UThread.File as File
import Network.UThread.Socket
import UThread.Ring

main :: IO ()
main = do
  uring <- try (withManager defaultOptions {driver = Uring} supportsIOURing) :: IO (Either IOException Bool)
  when (uring /= Right True) $ hPutStrLn stderr "not checked: io_uring, which the kernel refuses"
  defaultMain . testGroup "uthread-network" $
    [ testGroup (show chosen) (map (test chosen) tests)
    | chosen <- [Uring | uring == Right True] ++ [Epoll]
    ]
  where
    test chosen (name, body) = testCase name $ do
      ended <- timeout 30000000 (withManager defaultOptions {driver = chosen} body)
      ended @?= Just ()

tests :: [(String, Manager -> Assertion)]
tests =
  [ ("messages go both ways", messagesGoBothWays)
  , ("more than the socket holds is sent and received", muchIsSent)
  , ("pieces are received one by one", piecesAreReceived)
  , ("a thread serves each connection", eachConnectionIsServed)
  , ("each of several acceptors gets connections", acceptorsShare)
  , ("memory is sent and received", memoryIsSent)
  , ("many pieces are sent at once", piecesAreSent)
  , ("datagrams have their senders", datagramsHaveSenders)
  , ("a graceful end waits for the peer", gracefulEnds)
  , ("a refused connection has its error", refusedConnections)
  , ("files are written and read", filesAreWrittenAndRead)
  ]

loopback :: SockAddr
loopback = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))

withListener :: (Socket -> SockAddr -> IO a) -> IO a
withListener action = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener loopback
  listen listener 128
  getSocketName listener >>= action listener

withClient :: Manager -> SockAddr -> (Socket -> IO a) -> IO a
withClient manager address action = bracket (socket AF_INET Stream defaultProtocol) close $ \client ->
  connect manager client address >> action client

begin :: IO a -> IO (MVar a)
begin action = do
  result <- newEmptyMVar
  result <$ forkIO (action >>= putMVar result)

messagesGoBothWays :: Manager -> Assertion
messagesGoBothWays manager = withListener $ \listener address -> do
  answer <- begin . withClient manager address $ \client -> do
    sendAll manager client "question"
    text <- recv manager client 100
    peer <- getPeerName client
    pure (text, peer)
  (server, _) <- accept manager listener
  question <- recv manager server 100
  question @?= "question"
  sendAll manager server "answer"
  found <- takeMVar answer
  found @?= ("answer", address)
  close server

muchIsSent :: Manager -> Assertion
muchIsSent manager = withBuffers 16 4096 $ \buffers -> withListener $ \listener address -> do
  let bytes = ByteString.concat (replicate 200000 "0123456789abcdef")
  sent <- begin (withClient manager address (\client -> sendAll manager client bytes))
  (server, _) <- accept manager listener
  pieces <- newIORef []
  withReceived manager buffers server 8 $ \piece -> modifyIORef pieces (ByteString.copy piece :)
  takeMVar sent
  received <- ByteString.concat . reverse <$> readIORef pieces
  assertBool "the same bytes" (received == bytes)
  close server

-- | More of them than there are buffers, and than may wait.
piecesAreReceived :: Manager -> Assertion
piecesAreReceived manager = withBuffers 8 16 $ \buffers -> withListener $ \listener address -> do
  let bytes = ByteString.concat (replicate 1000 "0123456789abcdef")
  sent <- begin (withClient manager address (\client -> sendAll manager client bytes))
  (server, _) <- accept manager listener
  received <- withReceiver manager buffers server 4 $ \receive ->
    let loop before = receive >>= \piece -> if ByteString.null piece then pure before else loop (piece : before)
     in loop []
  takeMVar sent
  assertBool "the same bytes" (ByteString.concat (reverse received) == bytes)
  close server

eachConnectionIsServed :: Manager -> Assertion
eachConnectionIsServed manager = withListener $ \listener address -> do
  acceptor <- forkIO . withAccepted manager listener 4 $ \connection -> do
    text <- recv manager connection 100
    sendAll manager connection text
  answers <- forM [1 .. 50 :: Int] $ \number -> begin . withClient manager address $ \client -> do
    let text = Char8.pack (show number)
    sendAll manager client text
    answer <- recv manager client 100
    end <- recv manager client 100
    pure (answer == text && ByteString.null end)
  found <- mapM takeMVar answers
  assertBool "each has its answer, and the end" (and found)
  killThread acceptor

acceptorsShare :: Manager -> Assertion
acceptorsShare manager = withListener $ \listener address -> do
  accepted <- newMVar (0 :: Int)
  let acceptor = forever $ do
        (connection, _) <- accept manager listener
        modifyMVar_ accepted (pure . (+ 1))
        sendAll manager connection "answer"
        close connection
  acceptors <- replicateM 4 (forkIO acceptor)
  answers <- replicateM 50 . begin . withClient manager address $ \client -> recv manager client 100
  found <- mapM takeMVar answers
  found @?= replicate 50 "answer"
  mapM_ killThread acceptors
  readMVar accepted >>= (@?= 50)

-- | The receiver waits first, then the sender, and the other threads go on meanwhile.
memoryIsSent :: Manager -> Assertion
memoryIsSent manager = withListener $ \listener address -> do
  let size = 3000000
      piece = 65536
  sent <- begin . withClient manager address $ \client -> allocaBytes size $ \memory -> do
    forM_ [0, 4096 .. size - 1] $ \offset -> pokeByteOff memory offset (fromIntegral (offset `div` 4096) :: Word8)
    threadDelay 20000
    let loop offset = when (offset < size) $ sendBuf manager client (plusPtr memory offset) (size - offset) >>= loop . (offset +)
    loop 0
  (server, _) <- accept manager listener
  found <- allocaBytes piece $ \memory -> do
    first <- recvBuf manager server memory 1
    byte <- peek memory
    threadDelay 20000
    let loop count = recvBuf manager server memory piece >>= \more -> if more == 0 then pure count else loop (count + more)
    rest <- loop 0
    pure (first, byte, rest)
  found @?= (1, 0, size - 1)
  takeMVar sent
  close server

-- | More pieces than one call takes, and more bytes than the socket holds.
piecesAreSent :: Manager -> Assertion
piecesAreSent manager = withListener $ \listener address -> do
  let pieces = map (\number -> ByteString.replicate (number `mod` 3 * 1000) (fromIntegral number)) [0 .. 2999 :: Int]
  sent <- begin (withClient manager address (\client -> sendMany manager client pieces))
  (server, _) <- accept manager listener
  let loop before = recv manager server 65536 >>= \bytes -> if ByteString.null bytes then pure (reverse before) else loop (bytes : before)
  threadDelay 20000
  received <- loop []
  assertBool "the same bytes" (ByteString.concat received == ByteString.concat pieces)
  takeMVar sent
  close server

datagramsHaveSenders :: Manager -> Assertion
datagramsHaveSenders manager = withDatagrams $ \one -> withDatagrams $ \other -> do
  [first, second] <- mapM getSocketName [one, other]
  waiting <- begin (recvFrom manager other 100)
  threadDelay 20000
  sendAllTo manager one "question" second
  found <- takeMVar waiting
  found @?= ("question", first)
  sendManyTo manager other ["an", "", "swer"] first
  (size, sender) <- allocaBytes 100 $ \memory -> recvBufFrom manager one (memory :: Ptr Word8) 100
  (size, sender) @?= (6, second)
  count <- allocaBytes 3 $ \memory -> pokeByteOff memory 0 (7 :: Word8) >> sendBufTo manager one (memory :: Ptr Word8) 3 second
  (bytes, _) <- recvFrom manager other 2
  (count, ByteString.length bytes) @?= (3, 2)
  -- That of a socket without a wait is empty.
  nothing <- timeout 20000 (recvFrom manager one 10)
  nothing @?= Nothing
  where
    withDatagrams = bracket (socket AF_INET Datagram defaultProtocol >>= \made -> made <$ bind made loopback) close

gracefulEnds :: Manager -> Assertion
gracefulEnds manager = withListener $ \listener address -> do
  client <- begin . withClient manager address $ \client -> do
    end <- recv manager client 100
    threadDelay 20000
    sendAll manager client "late"
    pure end
  (server, _) <- accept manager listener
  gracefulClose manager server 10000
  end <- takeMVar client
  end @?= ""
  (silent, _) <- begin (withClient manager address (\_ -> threadDelay 1000000)) >> accept manager listener
  ended <- timeout 500000 (gracefulClose manager silent 20)
  ended @?= Just ()

refusedConnections :: Manager -> Assertion
refusedConnections manager = do
  address <- withListener (const pure)
  refused <- try (withClient manager address (const (pure ()))) :: IO (Either IOException ())
  assertBool "it is refused" (either (const True) (const False) refused)

filesAreWrittenAndRead :: Manager -> Assertion
filesAreWrittenAndRead manager = bracket temporary removeFile $ \path -> do
  let bytes = ByteString.concat (replicate 20000 "some text ")
  File.writeFile manager (Char8.pack path) bytes
  found <- File.readFile manager (Char8.pack path)
  assertBool "the same bytes" (found == bytes)
  missing <- try (File.readFile manager "/missing") :: IO (Either IOException ByteString.ByteString)
  assertBool "an error" (either (const True) (const False) missing)
  where
    temporary = do
      (path, file) <- openTempFile "/tmp" "uthread-network"
      path <$ hClose file
