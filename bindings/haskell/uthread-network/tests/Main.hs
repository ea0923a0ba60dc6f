{-# LANGUAGE OverloadedStrings #-}

-- | Sockets and files on each driver. What the kernel refuses is skipped, with a word.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
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
  , ("a refused connection has its error", refusedConnections)
  , ("files are written and read", filesAreWrittenAndRead)
  ]

loopback :: SockAddr
loopback = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))

withListener :: (Socket -> SockAddr -> IO a) -> IO a
withListener action = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener loopback
  listen listener 16
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
