-- | Files whose calls wait in the ring of a 'Manager', and no thread of the system with them.
module Network.UThread.File
  ( readFile
  , writeFile
  , withFile
  , Request.Offset (..)
  , readAt
  , writeAt
  ) where

import Control.Exception (bracket, uninterruptibleMask_)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Word (Word32)
import System.Posix.Types (Fd)
import Prelude hiding (readFile, writeFile)

import UThread.Ring (Manager, submitBlocking)
import qualified UThread.Ring.Request as Request

-- | Opens a file with the flags of @open(2)@, and closes it after the action.
withFile :: Manager -> ByteString -> Word32 -> (Fd -> IO a) -> IO a
withFile manager path flags =
  bracket
    (submitBlocking manager (Request.openFile path flags 0o666))
    -- A descriptor would be lost if its close were cancelled.
    (uninterruptibleMask_ . submitBlocking manager . Request.close)

-- | Reads at most @size@ bytes: none at the end of the file.
readAt :: Manager -> Fd -> Request.Offset -> Int -> IO ByteString
readAt manager fd offset size = submitBlocking manager (Request.readAt fd offset size)

-- | Writes all bytes at an offset.
writeAt :: Manager -> Fd -> Request.Offset -> ByteString -> IO ()
writeAt manager fd offset bytes = unless (ByteString.null bytes) $ do
  count <- submitBlocking manager (Request.writeAt fd offset bytes)
  writeAt manager fd (after count) (ByteString.drop count bytes)
  where
    after count = case offset of
      Request.At at -> Request.At (at + fromIntegral count)
      Request.Position -> Request.Position

-- | Reads a whole file.
readFile :: Manager -> ByteString -> IO ByteString
readFile manager path = withFile manager path 0 $ \fd -> ByteString.concat <$> pieces fd 0
  where
    pieces fd offset = do
      piece <- readAt manager fd (Request.At offset) 65536
      if ByteString.null piece
        then pure []
        else (piece :) <$> pieces fd (offset + fromIntegral (ByteString.length piece))

-- | Writes a whole file, which is created or replaced.
writeFile :: Manager -> ByteString -> ByteString -> IO ()
writeFile manager path bytes = withFile manager path create $ \fd -> writeAt manager fd (Request.At 0) bytes
  where
    create = 0o1 + 0o100 + 0o1000 -- O_WRONLY, O_CREAT and O_TRUNC
