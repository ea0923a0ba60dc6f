{-# LANGUAGE OverloadedStrings #-}

-- | The same server on warp, which stands on GHC's event manager.
--
-- > warp PORT FOLDER
module Main (main) where

import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Network.HTTP.Types (status200, status400)
import Network.Wai (rawPathInfo, responseFile, responseLBS)
import Network.Wai.Handler.Warp (defaultSettings, runSettings, setFdCacheDuration, setFileInfoCacheDuration, setHost, setPort)
import System.Environment (getArgs)
import System.Exit (die)

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    [port, folder] -> runSettings (settings (read port)) $ \request respond -> do
      let path = rawPathInfo request
      respond $
        if ".." `ByteString.isInfixOf` path
          then responseLBS status400 [] "no such path\n"
          else responseFile status200 [] (folder ++ Char8.unpack path) Nothing
    _ -> die "usage: warp PORT FOLDER"
  where
    -- Its caches of descriptors and of file information, which are off by default.
    settings port = setFdCacheDuration 10 . setFileInfoCacheDuration 10 . setHost "127.0.0.1" $ setPort port defaultSettings
