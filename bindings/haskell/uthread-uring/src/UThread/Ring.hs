-- | io_uring under Haskell's own threads.
--
-- > import UThread.Ring
-- > import qualified UThread.Ring.Request as Request
-- >
-- > main :: IO ()
-- > main = withManager defaultOptions $ \manager -> do
-- >   file <- submitBlocking manager (Request.openFile (pack "/etc/hostname") 0 0)
-- >   text <- submitBlocking manager (Request.readAt file (Request.At 0) 4096)
-- >   ByteString.putStr text
--
-- Link with @-threaded@: completions come from a thread of the manager.
module UThread.Ring
  ( -- * The manager
    Manager
  , withManager
  , newManager
  , Options (..)
  , Driver (..)
  , defaultOptions
  , managerDriver
  , supportsIOURing

    -- * Requests
  , submitBlocking
  , submitChain
  , Request

    -- * Many results
  , module UThread.Ring.Stream

    -- * Files and memory of the ring
  , module UThread.Ring.Registered
  ) where

import UThread.Ring.Manager
import UThread.Ring.Registered
import UThread.Ring.Request (Request)
import UThread.Ring.Stream
import UThread.Ring.Submit (submitBlocking, submitChain)

-- | io_uring if the kernel permits it, without kernel polling. Requests gather.
defaultOptions :: Options
defaultOptions = Options {driver = Default, kernelPollingMs = Nothing, gathers = True}
