{-# LANGUAGE OverloadedStrings #-}

-- | A static web server, small and plain: the same code on the ring and on GHC's event manager.
--
-- > server (uring|epoll|loop|ghc) PORT FOLDER
--
-- @uring@ and @epoll@ are drivers of a manager. @loop@ is the accept loop of @ghc@ with other imports and the manager as an argument.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Exception (IOException, bracket, finally, handleJust, try)
import Control.Monad (forever, guard, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (toLower)
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network
import System.Environment (getArgs)
import System.Exit (die)
import System.IO.Error (isResourceVanishedError)

import qualified Network.UThread.File as File
import qualified Network.UThread.Socket as Ring
import UThread.Ring (Buffers, Driver (..), Manager, Options (..), defaultOptions, withBuffers, withManager)

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    ["uring", port, folder] -> ring Uring (read port) (Char8.pack folder)
    ["epoll", port, folder] -> ring Epoll (read port) (Char8.pack folder)
    ["loop", port, folder] -> withManager defaultOptions $ \manager -> withListener (read port) (acceptLoop manager (Char8.pack folder))
    ["ghc", port, folder] -> withListener (read port) (eventManager folder)
    _ -> die "usage: server (uring|epoll|loop|ghc) PORT FOLDER"

ring :: Driver -> Network.PortNumber -> ByteString -> IO ()
ring chosen port folder = withManager defaultOptions {driver = chosen} $ \manager ->
  withBuffers 1024 4096 $ \buffers -> withListener port (onRing manager buffers folder)

withListener :: Network.PortNumber -> (Network.Socket -> IO ()) -> IO ()
withListener port = bracket listener Network.close
  where
    listener = do
      made <- Network.socket Network.AF_INET Network.Stream Network.defaultProtocol
      Network.setSocketOption made Network.ReuseAddr 1
      Network.bind made (Network.SockAddrInet port (Network.tupleToHostAddress (127, 0, 0, 1)))
      made <$ Network.listen made 4096

-- | The server on the ring.
onRing :: Manager -> Buffers -> ByteString -> Network.Socket -> IO ()
onRing manager buffers folder listener = do
  made <- Ring.adopt listener
  Ring.withAccepted manager made 64 $ \connection -> do
    Network.setSocketOption connection Network.NoDelay 1
    let name path = folder <> "/" <> path
    Ring.withReceiver manager buffers connection 8 $ \receive ->
      serve receive (Ring.sendAll manager connection) (File.readFile manager . name)

-- | The server on the ring, as programs for GHC's event manager are written.
acceptLoop :: Manager -> ByteString -> Network.Socket -> IO ()
acceptLoop manager folder listener = forever $ do
  (connection, _) <- Ring.accept manager listener
  Network.setSocketOption connection Network.NoDelay 1
  let name path = folder <> "/" <> path
  void . forkIO $
    serve (Ring.recv manager connection 4096) (Ring.sendAll manager connection) (File.readFile manager . name)
      `finally` Network.close connection

-- | The server on GHC's event manager.
eventManager :: String -> Network.Socket -> IO ()
eventManager folder listener = forever $ do
  (connection, _) <- Network.accept listener
  Network.setSocketOption connection Network.NoDelay 1
  let name path = folder ++ "/" ++ Char8.unpack path
  void . forkIO $
    serve (Network.recv connection 4096) (Network.sendAll connection) (ByteString.readFile . name)
      `finally` Network.close connection

-- | Answers the requests of a connection, until the peer closes or resets it, or a request is the last one.
serve :: IO ByteString -> (ByteString -> IO ()) -> (ByteString -> IO ByteString) -> IO ()
serve receive send readFile' = handleJust (guard . isResourceVanishedError) pure (loop ByteString.empty)
  where
    loop before = do
      let (header, rest) = ByteString.breakSubstring "\r\n\r\n" before
      if ByteString.null rest
        then more before
        else do
          let fields = map (Char8.map toLower . Char8.filter (`notElem` ("\r " :: String))) (Char8.lines header)
              is10 = "http/1.0" `ByteString.isSuffixOf` head fields
              goesOn = if is10 then "connection:keep-alive" `elem` fields else "connection:close" `notElem` fields
              connection
                | not goesOn = "\r\nConnection: close"
                | is10 = "\r\nConnection: keep-alive"
                | otherwise = ""
          respond connection (Char8.words header)
          when goesOn $ loop (ByteString.drop 4 rest)
    more before = do
      bytes <- receive
      unless (ByteString.null bytes || ByteString.length before > 16384) $ loop (before <> bytes)
    respond connection ("GET" : path : _)
      | ".." `ByteString.isInfixOf` path = answer connection "400 Bad Request" "no such path\n"
      | otherwise = do
          found <- try (readFile' (Char8.dropWhile (== '/') path)) :: IO (Either IOException ByteString)
          either (const (answer connection "404 Not Found" "no such file\n")) (answer connection "200 OK") found
    respond connection _ = answer connection "400 Bad Request" "GET is what there is\n"
    answer connection status body =
      send . ByteString.concat $
        ["HTTP/1.1 ", status, "\r\nContent-Length: ", Char8.pack (show (ByteString.length body)), connection, "\r\n\r\n", body]
